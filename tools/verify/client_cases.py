"""More cases of verify_client.py: times, models, blocks, compactions, API errors, predictions."""
import datetime
import json
import re
import shutil
import uuid

import resume_oracle
from annals_cli import Annals
from verify_client import (CALLS, MODEL, MORE, REPLY, RESULTS, TOOLS, Predicted, Wanted, assistant, case, recorded_turns,
                           user)

RECORDED = ("2.1.325-s01-multiturn", "11111111-2222-4333-8444-555555555555")
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data":
         "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}}


def at(second):
    """Returns a time on one fixed day, as clients format it."""
    time = datetime.datetime(2026, 1, 2) + datetime.timedelta(seconds=second)
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (time.microsecond // 1000)


def timed(drafts, seconds):
    """Returns the drafts with the given times."""
    return [{**draft, "timestamp": at(second)} for draft, second in zip(drafts, seconds)]


# --- times ---


@case("times-equal")
def times_equal(stage):
    """drafts that all have the same `timestamp`, in one `append`"""
    session, file = stage.annals.new(stage.work)
    return Wanted(file, TOOLS, stage.annals.append(session, *timed(TOOLS, [7] * len(TOOLS)))[-1])


@case("times-falling")
def times_falling(stage):
    """drafts whose `timestamp` decreases from one `append` to the next"""
    session, file = stage.annals.new(stage.work)
    for draft in timed(TOOLS, [90, 80, 70, 60, 50]):
        leaf = stage.annals.append(session, draft)[-1]
    return Wanted(file, TOOLS, leaf)


def converted(stage, layout, drafts, *options, change=None):
    """Writes drafts in another layout and converts that root; the client must send the same
    messages."""
    other = stage.root.parent / layout
    there = Annals(stage.annals.command, other, layout)
    session, log = there.new(stage.work)
    there.append(session, *drafts)
    if change:
        log.write_bytes(change(log.read_bytes()))
    shutil.rmtree(stage.root)
    stage.annals.run("convert", "%s:%s" % (layout, other), "--to", "claude-code", "--into", stage.root, *options)
    (file,) = stage.root.glob("projects/*/*.jsonl")
    return Wanted(file, drafts)


@case("from-chorus-times-equal")
def from_chorus_times_equal(stage):
    """a chorus conversation whose messages have the same time, then `convert`"""
    return converted(stage, "chorus", timed(TOOLS + MORE, [7] * 7))


@case("from-clog-times-falling")
def from_clog_times_falling(stage):
    """a clog chat with decreasing times, then `convert --no-origin`"""
    return converted(stage, "clog", timed(TOOLS + MORE, [90, 80, 70, 60, 50, 40, 30]), "--no-origin")


@case("from-chorus-no-times")
def from_chorus_no_times(stage):
    """chorus messages without any time, then `convert`"""
    def strip(data):
        return re.sub(rb'"timestamp":"[^"]*",?', b"", data)
    return converted(stage, "chorus", TOOLS + MORE, change=strip)


# --- models ---


@case("no-model")
def no_model(stage):
    """a reply without a model after replies with one: earlier thinking is still sent"""
    session, file = stage.annals.new(stage.work)
    stage.annals.append(session, *TOOLS)
    nameless = {name: value for name, value in MORE[1].items() if name != "model"}
    return Wanted(file, TOOLS + MORE, stage.annals.append(session, MORE[0], nameless)[-1])


@case("from-chorus-no-model")
def from_chorus_no_model(stage):
    """the same in a chorus conversation whose first reply has no model, then `convert`"""
    nameless = {name: value for name, value in TOOLS[1].items() if name != "model"}
    return converted(stage, "chorus", [TOOLS[0], nameless, *TOOLS[2:], *MORE])


# --- blocks ---


@case("prompt-blocks")
def prompt_blocks(stage):
    """a prompt of two texts and a picture, and results together with a text"""
    drafts = [user([{"type": "text", "text": "Look at this."}, PIXEL, {"type": "text", "text": "And run both."}]),
              assistant(REPLY, "tool_use"), user(RESULTS + [{"type": "text", "text": "Go on."}]),
              assistant("Both ran.")]
    session, file = stage.annals.new(stage.work)
    return Wanted(file, drafts, stage.annals.append(session, *drafts)[-1])


# --- compactions ---


def lines_of(file):
    """Returns the records of a log."""
    return list(resume_oracle.parsed_lines(file.read_bytes()))


def add(file, *records):
    """Appends records to a log, as another program would."""
    with open(file, "a", encoding="utf-8") as log:
        log.writelines(json.dumps(record) + "\n" for record in records)


def boundary_after(file, parent=None):
    """Returns a compaction boundary without a summary, after the last message of a log."""
    lines = lines_of(file)
    last = [line for line in lines if line["type"] in ("user", "assistant")][-1]
    time = datetime.datetime.strptime(last["timestamp"], "%Y-%m-%dT%H:%M:%S.%fZ") + datetime.timedelta(seconds=1)
    return {"parentUuid": parent, "logicalParentUuid": last["uuid"], "isSidechain": False, "type": "system",
            "subtype": "compact_boundary", "content": "Conversation compacted", "isMeta": False, "level": "info",
            "sessionId": file.stem, "uuid": str(uuid.uuid4()),
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (time.microsecond // 1000)}


@case("lone-boundary")
def lone_boundary(stage):
    """`append` after a compaction boundary without a summary: the history is still sent"""
    file = stage.recorded(*RECORDED)
    turns = recorded_turns(file)
    add(file, boundary_after(file))
    return Wanted(file, turns + MORE, stage.annals.append(file, *MORE)[-1])


def boundaries(file):
    """Returns the ids and times of a log's compactions."""
    found = [line for line in lines_of(file) if line.get("subtype") == "compact_boundary"]
    return [(line["uuid"], line["timestamp"], line.get("logicalParentUuid")) for line in found]


def imported(stage, session, file):
    """Exports a session and imports it into an empty root; returns the new log."""
    archive = stage.root.parent / "export.json"
    stage.annals.run("export", session, "--format", "json", "--no-redact", "-o", archive)
    name = file.relative_to(stage.root)
    shutil.move(stage.root, stage.root.parent / "exported")
    stage.root.mkdir()
    stage.annals.run("import", archive, "--into", "claude-code:%s" % stage.root)
    return stage.root / name


@case("import-compaction")
def import_compaction(stage):
    """`export` and `import` of a session with a compaction, which keeps its id and time, then an `append`"""
    session, file = stage.annals.new(stage.work)
    stage.annals.append(session, *TOOLS)
    stage.annals.run("compact", session, "--summary", "SUMMARY: both commands ran.")
    stage.annals.append(session, *MORE)
    before = boundaries(file)
    file = imported(stage, session, file)
    faults = [] if boundaries(file) == before else ["the boundary was %s and is %s" % (before, boundaries(file))]
    leaf = stage.annals.append(session, *MORE)[-1]
    return Wanted(file, [{**user(""), "contains": "SUMMARY: both commands ran."}] + MORE + MORE, leaf, faults)


# --- API errors ---


def with_api_error(stage):
    """Writes a recorded session in which the API refused a prompt and answered the next one."""
    file = stage.recorded(*RECORDED)
    turns = recorded_turns(file)
    lines = lines_of(file)
    last = [line for line in lines if line["type"] in ("user", "assistant")][-1]
    common = {key: last[key] for key in ("cwd", "sessionId", "version", "gitBranch", "userType") if key in last}
    # The client continues from the end of the chain, which it named in `last-prompt`: an attachment.
    parent, said = [line["uuid"] for line in lines if "uuid" in line][-1], []
    start = datetime.datetime.strptime(last["timestamp"], "%Y-%m-%dT%H:%M:%S.%fZ")
    for number, (role, text, model) in enumerate([("user", "Ask.", None), ("assistant", "API Error: 500", "<synthetic>"),
                                                  ("user", "Ask again.", None), ("assistant", "Answered.", MODEL)]):
        time = start + datetime.timedelta(seconds=number + 1)
        content = text if role == "user" else [{"type": "text", "text": text}]
        message = {"role": role, "content": content}
        if model:
            message.update(id="msg_%d" % number, type="message", model=model, stop_reason="end_turn", stop_sequence=None,
                           usage={"input_tokens": 1, "output_tokens": 1})
        line = {**common, "parentUuid": parent, "isSidechain": False, "type": role, "message": message,
                "uuid": str(uuid.uuid4()), "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.") + "000Z"}
        if model == "<synthetic>":
            line["isApiErrorMessage"] = True
        else:
            said.append({"role": role, "content": content})
        parent = line["uuid"]
        add(file, line)
    return file, turns + said


@case("import-api-error")
def import_api_error(stage):
    """`export` and `import` of a session with an API error, which is not a reply of the model"""
    file, turns = with_api_error(stage)
    return Wanted(imported(stage, file.stem, file), turns)


@case("clean-api-error")
def clean_api_error(stage):
    """the same session converted to chorus and back with --no-origin"""
    file, turns = with_api_error(stage)
    for other in stage.root.glob("projects/*/*.jsonl"):
        if other != file:
            other.unlink()
    away, name = stage.root.parent / "chorus", file.relative_to(stage.root)
    stage.annals.run("convert", "claude-code:%s" % stage.root, "--to", "chorus", "--into", away, "--no-origin")
    shutil.rmtree(stage.root)
    stage.annals.run("convert", "chorus:%s" % away, "--to", "claude-code", "--into", stage.root, "--no-origin")
    return Wanted(stage.root / name, turns)


# --- what annals predicts of logs that others wrote ---


SESSION = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"


def name(number):
    """Returns the id of an entry in a hand-made log."""
    return "%08d-0000-4000-8000-000000000000" % number


def line(number, parent, kind, content=None, second=None, **more):
    """Returns a record of a hand-made log; its time is its number unless `second` is given."""
    record = {"parentUuid": name(parent) if parent else None, "isSidechain": False, "cwd": "/work", "sessionId": SESSION,
              "version": "2.1.325", "type": kind, "uuid": name(number), "timestamp": at(second or number)}
    if kind == "user":
        record["message"] = {"role": "user", "content": content or "prompt %d" % number}
    if kind == "assistant":
        content = content or [{"type": "text", "text": "reply %d" % number}]
        record["message"] = {"id": more.pop("response", "msg_%d" % number), "type": "message", "role": "assistant",
                             "model": MODEL, "content": content, "stop_reason": "end_turn", "stop_sequence": None,
                             "usage": {"input_tokens": 1, "output_tokens": 1}}
    return {**record, **more}


def prompt(number, parent, **more):
    """Returns a prompt of a hand-made log."""
    return line(number, parent, "user", **more)


def reply(number, parent, **more):
    """Returns a reply of a hand-made log."""
    return line(number, parent, "assistant", **more)


def named(number):
    """Returns a line that names the leaf to resume."""
    return {"type": "last-prompt", "lastPrompt": "prompt", "leafUuid": name(number), "sessionId": SESSION}


def predicted(stage, *records):
    """Writes a hand-made log and reads the leaf and the flaws that annals reports."""
    folder = stage.root / "projects" / "-work"
    folder.mkdir(parents=True)
    file = folder / (SESSION + ".jsonl")
    add(file, *records)
    report = stage.annals.json("check", file)
    reported = {flaw["kind"] for one in report["files"] for flaw in one["flaws"]}
    kept = file.read_bytes()
    added = stage.annals.append(file, user("next"))[-1]
    (leaf,) = [one["parentUuid"] for one in lines_of(file) if one.get("uuid") == added]
    file.write_bytes(kept)
    return Predicted(file, leaf, reported)


BASE = [prompt(1, None), reply(2, 1), prompt(3, 2), reply(4, 3)]
BRANCH = [prompt(5, 2), reply(6, 5)]


@case("reads-named-inner")
def reads_named_inner(stage):
    """`last-prompt` names a prompt within one branch, and another branch ends the file"""
    return predicted(stage, *BASE, named(3), *BRANCH)


@case("reads-named-above")
def reads_named_above(stage):
    """`last-prompt` names an entry above both branches"""
    return predicted(stage, *BASE, *BRANCH, named(2))


@case("reads-named-branch")
def reads_named_branch(stage):
    """`last-prompt` names the end of the older branch"""
    return predicted(stage, *BASE, *BRANCH, named(4))


@case("reads-named-before-compaction")
def reads_named_before_compaction(stage):
    """`last-prompt` names an inner entry, and a compaction follows it"""
    boundary = line(5, None, "system", subtype="compact_boundary", content="Conversation compacted",
                    logicalParentUuid=name(4))
    summary = prompt(6, 5, content="SUMMARY", isCompactSummary=True)
    return predicted(stage, *BASE, named(3), boundary, summary, reply(7, 6))


@case("reads-child-first")
def reads_child_first(stage):
    """a reply is before its prompt in the file"""
    return predicted(stage, *BASE[:2], BASE[3], BASE[2])


@case("reads-child-first-and-older")
def reads_child_first_and_older(stage):
    """a reply is before its prompt in the file and older than it"""
    return predicted(stage, *BASE[:2], reply(4, 3, second=3), prompt(3, 2, second=4))


@case("reads-equal-times")
def reads_equal_times(stage):
    """all entries have the same time"""
    return predicted(stage, *[{**record, "timestamp": at(1)} for record in BASE])


@case("reads-no-time")
def reads_no_time(stage):
    """the last message has no time"""
    bare = {key: value for key, value in BASE[3].items() if key != "timestamp"}
    return predicted(stage, *BASE[:3], bare)


@case("reads-progress")
def reads_progress(stage):
    """the chain has a progress record"""
    return predicted(stage, *BASE, line(5, 4, "progress", data={"type": "hook"}), prompt(6, 5), reply(7, 6))


@case("reads-call-graph")
def reads_call_graph(stage):
    """the results of parallel calls have their own calls as parents"""
    first, second = ({**call, "id": "toolu_graph_%d" % number} for number, call in enumerate(CALLS))
    def result(call):
        return [{"type": "tool_result", "tool_use_id": call["id"], "content": "out"}]
    return predicted(stage, prompt(1, None), reply(2, 1, content=[first], response="msg"),
                     reply(3, 2, content=[second], response="msg"), prompt(4, 2, content=result(first)),
                     prompt(5, 3, content=result(second)), reply(6, 5))


@case("reads-boundary-last")
def reads_boundary_last(stage):
    """the log ends with a compaction boundary without a summary"""
    return predicted(stage, *BASE, line(5, None, "system", subtype="compact_boundary",
                                        content="Conversation compacted", logicalParentUuid=name(4)))


@case("fork-call-graph")
def fork_call_graph(stage):
    """`fork` of a session with parallel calls and progress, for client 2.0.77"""
    first, second = ({**call, "id": "toolu_graph_%d" % number} for number, call in enumerate(CALLS))
    results = [[{"type": "tool_result", "tool_use_id": call["id"], "content": "out"}] for call in (first, second)]
    predicted(stage, prompt(1, None), line(2, 1, "progress", data={"type": "hook"}),
              reply(3, 2, content=[first], response="msg"), reply(4, 3, content=[second], response="msg"),
              prompt(5, 3, content=results[0]), prompt(6, 4, content=results[1]), reply(7, 6))
    _, file = stage.annals.fork(SESSION)
    return Wanted(file, [user("prompt 1"), assistant([first, second]), user(results[0] + results[1]),
                         assistant("reply 7")])
