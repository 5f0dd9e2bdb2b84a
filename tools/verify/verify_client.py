#!/usr/bin/env python3
"""Proves that the real Claude Code client reconstructs what annals wrote.

Each case writes a session with `annals`, defines which messages it has, and asks the client
(through tools/resume-oracle) which messages it would send. Both must be equal, the client must
continue from the last written entry, and it must not change existing bytes. The cases of
`client_cases.py` that only read compare annals' prediction with the client.

    verify_client.py                                  every case, every client
    verify_client.py --case fork-inner --client 2.0.77
    verify_client.py --random 40 --seed 7             random operations instead; a seed repeats them
    verify_client.py --random 40 --write docs/CLIENT.md    both, and writes the results as a page

Downloads the clients with npm on first use. Exit codes: 0 all as expected, 1 something differs, 2
could not run.
"""
import argparse
import contextlib
import datetime
import difflib
import json
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "resume-oracle")]
import resume_oracle  # noqa: E402
from annals_cli import REPOSITORY, Annals, AnnalsError, find_annals  # noqa: E402

CLIENTS = ["2.1.325", "2.0.77"]
MODEL = "claude-sonnet-4-5-20250929"
FIXTURES = REPOSITORY / "fixtures" / "claude-code"
CASES = {}


def case(name):
    """Registers a function (stage) -> Wanted."""
    def register(function):
        CASES[name] = function
        return function
    return register


class Wanted:
    """A session file and the messages that a client must send. `faults` are errors of the file
    itself."""

    def __init__(self, file, messages, leaf=None, faults=()):
        self.file, self.messages, self.leaf = Path(file), merged(messages), leaf
        self.faults = list(faults)


class Predicted:
    """A session file that annals did not write, the leaf that annals predicts, and the flaws of
    `check`."""

    def __init__(self, file, leaf, reported):
        self.file, self.leaf, self.reported = Path(file), leaf, reported


class Stage:
    """One root and one working directory for one case."""

    def __init__(self, command, folder):
        self.root, self.work = folder / "root", folder / "work"
        self.root.mkdir()
        self.work.mkdir()
        self.annals = Annals(command, self.root)

    def recorded(self, fixture, session):
        """Copies a recorded root into the stage; returns the path of one of its logs."""
        shutil.copytree(FIXTURES / fixture, self.root, dirs_exist_ok=True)
        (found,) = self.root.glob("projects/*/%s.jsonl" % session)
        return found


# --- drafts and what they mean ---------------------------------------------------------------


def user(content):
    """Returns a user draft."""
    return {"role": "user", "content": content}


def assistant(content, stop_reason="end_turn"):
    """Returns an assistant draft."""
    return {"role": "assistant", "content": content, "model": MODEL, "stop_reason": stop_reason,
            "usage": {"input_tokens": 12, "output_tokens": 34}}


CALLS = [{"type": "tool_use", "id": "toolu_verify_%s" % letter, "name": "Bash",
          "input": {"command": "echo " + letter}} for letter in "ab"]
REPLY = [{"type": "thinking", "thinking": "Two commands at once.", "signature": "c2lnbmF0dXJl"},
         {"type": "text", "text": "Running both."}, *CALLS]
RESULTS = [{"type": "tool_result", "tool_use_id": call["id"], "content": "out " + call["id"][-1]} for call in CALLS]
TOOLS = [user("Run both commands."), assistant(REPLY, "tool_use"), user(RESULTS[:1]), user(RESULTS[1:]),
         assistant("Both ran.")]
MORE = [user("And now?"), assistant("Now we are done.")]


def merged(drafts):
    """Returns the messages of an API request: plain blocks, with adjacent user messages joined."""
    messages = []
    for draft in drafts:
        content = draft["content"]
        blocks = [{"type": "text", "contains": draft["contains"]}] if "contains" in draft \
            else resume_oracle.blocks_of(content)
        if messages and draft["role"] == "user" == messages[-1]["role"]:
            messages[-1]["blocks"] += blocks
        else:
            messages.append({"role": draft["role"], "blocks": blocks})
    return messages


# --- the cases -----------------------------------------------------------------------------------


@case("new-append")
def new_append(stage):
    """`new`, then `append` message by message: thinking, text, two parallel calls, two results, an answer"""
    session, file = stage.annals.new(stage.work)
    for draft in TOOLS:
        ids = stage.annals.append(session, draft)
    return Wanted(file, TOOLS, ids[-1])


@case("one-call")
def one_call(stage):
    """the same messages and one more turn as drafts of a single `append`"""
    session, file = stage.annals.new(stage.work, "In one go")
    ids = stage.annals.append(session, *TOOLS, *MORE)
    return Wanted(file, TOOLS + MORE, ids[-1])


@case("unsigned-thinking")
def unsigned_thinking(stage):
    """a thinking block without signature, and a failed tool call"""
    drafts = [user("Try it."), assistant([{"type": "thinking", "thinking": "No signature."}, CALLS[0]], "tool_use"),
              user([{**RESULTS[0], "content": "no such file", "is_error": True}]), assistant("It failed.")]
    session, file = stage.annals.new(stage.work)
    return Wanted(file, drafts, stage.annals.append(session, *drafts)[-1])


@case("fork-inner")
def fork_inner(stage):
    """`fork` at the answer in the middle of a session: later messages must not be sent"""
    session, _ = stage.annals.new(stage.work)
    middle = stage.annals.append(session, *TOOLS)[-1]
    stage.annals.append(session, *MORE)
    _, file = stage.annals.fork(session, middle)
    return Wanted(file, TOOLS)


@case("fork-then-append")
def fork_then_append(stage):
    """the same fork, continued with another turn"""
    session, _ = stage.annals.new(stage.work)
    middle = stage.annals.append(session, *TOOLS)[-1]
    stage.annals.append(session, *MORE)
    fork, file = stage.annals.fork(session, middle, "Another way")
    other = [user("What else?"), assistant("Something else.")]
    return Wanted(file, TOOLS + other, stage.annals.append(fork, *other)[-1])


def recorded_turns(file):
    """Returns the prompts and answers of a recorded plain session with their uuids, in order."""
    turns = []
    for entry in resume_oracle.parsed_lines(file.read_bytes()):
        if entry["type"] not in ("user", "assistant") or entry.get("isMeta"):
            continue
        draft = {"role": entry["type"], "content": entry["message"]["content"], "uuid": entry["uuid"],
                 "message_id": entry["message"].get("id")}
        if turns and draft["message_id"] and draft["message_id"] == turns[-1]["message_id"]:
            turns[-1] = {**draft, "content": turns[-1]["content"] + draft["content"]}
        else:
            turns.append(draft)
    return turns


@case("fork-recorded-2.1.325")
def fork_recorded_new(stage):
    """`fork` at the first answer of a session recorded from client 2.1.325"""
    file = stage.recorded("2.1.325-s01-multiturn", "431e0bc2-f2c0-46ef-b1cb-e9aefe955ae7")
    turns = recorded_turns(file)
    _, fork = stage.annals.fork(file.stem, turns[1]["uuid"])
    return Wanted(fork, turns[:2])


@case("fork-recorded-2.0.77")
def fork_recorded_old(stage):
    """`fork` at the first answer of a session recorded from client 2.0.77"""
    file = stage.recorded("2.0.77-s01-multiturn", "056f3512-ee19-46f2-b50c-ea3c31665b63")
    turns = recorded_turns(file)
    _, fork = stage.annals.fork(file.stem, turns[1]["uuid"])
    return Wanted(fork, turns[:2])


@case("append-recorded")
def append_recorded(stage):
    """`append` of a turn to a session recorded from client 2.1.325, given by the path of its log"""
    file = stage.recorded("2.1.325-s01-multiturn", "11111111-2222-4333-8444-555555555555")
    turns = recorded_turns(file)
    return Wanted(file, turns + MORE, stage.annals.append(file, *MORE)[-1])


@case("title")
def title(stage):
    """`title` after the last message, twice"""
    session, file = stage.annals.new(stage.work, "First title")
    leaf = stage.annals.append(session, *TOOLS)[-1]
    stage.annals.run("title", session, "Second title")
    stage.annals.run("title", session, "Third title with \"quotes\" and \u00e9")
    return Wanted(file, TOOLS, leaf)


@case("torn-tail")
def torn_tail(stage):
    """the last record is torn in the middle, then annals appends its replacement"""
    session, file = stage.annals.new(stage.work)
    stage.annals.append(session, *TOOLS)
    stage.annals.append(session, MORE[0])
    stage.annals.append(session, MORE[1])
    data = file.read_bytes()
    start = data.rindex(b'"Now we are done."')
    file.write_bytes(data[:start + 6])
    again = assistant("Said again after the crash.")
    leaf = stage.annals.append(file, again)[-1]
    return Wanted(file, TOOLS + MORE[:1] + [again], leaf)


@case("compact")
def compact(stage):
    """`compact` with a summary, then one more turn: only the summary and the turn are sent"""
    session, file = stage.annals.new(stage.work)
    stage.annals.append(session, *TOOLS)
    stage.annals.run("compact", session, "--summary", "SUMMARY: both commands ran.")
    leaf = stage.annals.append(session, *MORE)[-1]
    return Wanted(file, [{**user(""), "contains": "SUMMARY: both commands ran."}] + MORE, leaf)


@case("compact-twice")
def compact_twice(stage):
    """a second `compact` after that turn: only the second summary and what follows are sent"""
    session, file = stage.annals.new(stage.work)
    stage.annals.append(session, *TOOLS)
    stage.annals.run("compact", session, "--summary", "FIRST SUMMARY")
    stage.annals.append(session, *MORE)
    stage.annals.run("compact", session, "--summary", "SECOND SUMMARY")
    leaf = stage.annals.append(session, *MORE)[-1]
    return Wanted(file, [{**user(""), "contains": "SECOND SUMMARY"}] + MORE, leaf)


@case("compact-recorded")
def compact_recorded(stage):
    """`compact` of a session recorded from client 2.1.325, which has its own last-prompt lines"""
    file = stage.recorded("2.1.325-s01-multiturn", "11111111-2222-4333-8444-555555555555")
    stage.annals.run("compact", file.stem, "--summary", "SUMMARY: a recorded session.")
    leaf = stage.annals.append(file.stem, *MORE)[-1]
    return Wanted(file, [{**user(""), "contains": "SUMMARY: a recorded session."}] + MORE, leaf)


@case("branch")
def branch(stage):
    """`append --at` an inner answer makes a branch, and the client resumes the new one"""
    session, file = stage.annals.new(stage.work)
    middle = stage.annals.append(session, *TOOLS)[-1]
    stage.annals.append(session, *MORE)
    other = [user("Another question."), assistant("Another answer.")]
    leaf = stage.annals.append(session, *other, at=middle)[-1]
    return Wanted(file, TOOLS + other, leaf)


@case("branch-recorded")
def branch_recorded(stage):
    """`append --at` the first answer of a session recorded from client 2.1.325, which names another leaf itself"""
    file = stage.recorded("2.1.325-s01-multiturn", "11111111-2222-4333-8444-555555555555")
    turns = recorded_turns(file)
    other = [user("Another question."), assistant("Another answer.")]
    leaf = stage.annals.append(file, *other, at=turns[1]["uuid"])[-1]
    return Wanted(file, turns[:2] + other, leaf)


@case("branch-then-back")
def branch_then_back(stage):
    """after the branch, `append --at` the old leaf continues the old branch"""
    session, file = stage.annals.new(stage.work)
    middle = stage.annals.append(session, *TOOLS)[-1]
    old = stage.annals.append(session, *MORE)[-1]
    stage.annals.append(session, user("Another question."), assistant("Another answer."), at=middle)
    back = [user("Back to the first way."), assistant("Here we are.")]
    leaf = stage.annals.append(session, *back, at=old)[-1]
    return Wanted(file, TOOLS + MORE + back, leaf)


@case("retry")
def retry(stage):
    """`append --at` a prompt writes a second reply to it"""
    session, file = stage.annals.new(stage.work)
    stage.annals.append(session, *TOOLS)
    prompt = stage.annals.append(session, MORE[0])[-1]
    stage.annals.append(session, MORE[1])
    again = assistant("A better answer.")
    leaf = stage.annals.append(session, again, at=prompt)[-1]
    return Wanted(file, TOOLS + MORE[:1] + [again], leaf)


@case("lines-beside")
def lines_beside(stage):
    """`tag`, `notes add`, `todos add` and `title` between and after the messages have no effect"""
    session, file = stage.annals.new(stage.work)
    stage.annals.append(session, *TOOLS)
    stage.annals.run("tag", session, "important")
    stage.annals.run("notes", "add", session, "Remember this.")
    stage.annals.run("todos", "add", session, "Write it down")
    leaf = stage.annals.append(session, *MORE)[-1]
    stage.annals.run("notes", "add", session, "And this.")
    stage.annals.run("title", session, "With lines beside")
    stage.annals.run("tag", session, "done")
    return Wanted(file, TOOLS + MORE, leaf)


def converted(stage, layout, *options):
    """Writes the messages in another layout and converts that root; the client must send them."""
    other = stage.root.parent / layout
    there = Annals(stage.annals.command, other, layout)
    session, _ = there.new(stage.work)
    there.append(session, *TOOLS)
    there.run("notes", "add", session, "Beside the messages.")
    there.append(session, *MORE)
    shutil.rmtree(stage.root)
    stage.annals.run("convert", "%s:%s" % (layout, other), "--to", "claude-code", "--into", stage.root, *options)
    (file,) = stage.root.glob("projects/*/*.jsonl")
    return Wanted(file, TOOLS + MORE)


@case("from-chorus")
def from_chorus(stage):
    """the same messages written to a chorus root, then `convert --to claude-code`"""
    return converted(stage, "chorus")


@case("from-clog")
def from_clog(stage):
    """the same messages written to a clog root, then `convert --to claude-code`"""
    return converted(stage, "clog")


@case("from-orchestrator")
def from_orchestrator(stage):
    """the same messages written to an orchestrator root, then `convert --to claude-code`"""
    return converted(stage, "orchestrator")


@case("from-chorus-clean")
def from_chorus_clean(stage):
    """the same from chorus with --no-origin"""
    return converted(stage, "chorus", "--no-origin")


@case("there-and-back")
def there_and_back(stage):
    """a session converted to clog and back, then an `append`"""
    session, file = stage.annals.new(stage.work)
    stage.annals.append(session, *TOOLS)
    away, name = stage.root.parent / "clog", file.relative_to(stage.root)
    stage.annals.run("convert", "claude-code:%s" % stage.root, "--to", "clog", "--into", away)
    shutil.rmtree(stage.root)
    stage.annals.run("convert", "clog:%s" % away, "--to", "claude-code", "--into", stage.root)
    leaf = stage.annals.append(session, *MORE)[-1]
    return Wanted(stage.root / name, TOOLS + MORE, leaf)


# --- judging ---------------------------------------------------------------------------------------


def judge(wanted, answer):
    """Compares the expected result with the client's; returns the differences as lines."""
    differences = []
    if answer["hung"]:
        differences.append("the client hung")
    if not same_messages(wanted.messages, answer["messages"] or []):
        differences += difflib.unified_diff(printed(wanted.messages), printed(answer["messages"] or []),
                                            "meant", "client", lineterm="", n=1)
    if answer["inserted"]:
        differences.append("the client wrote %d message(s) of its own before going on" % len(answer["inserted"]))
    if answer["leaf"] is None:
        differences.append("the client went on from no entry of the file")
    elif wanted.leaf and answer["leaf"] != wanted.leaf:
        differences.append("the client went on from %s, not from %s" % (answer["leaf"], wanted.leaf))
    if not answer["prefix_unchanged"]:
        differences.append("the client changed bytes that were there")
    return differences


def same_messages(meant, found):
    """Returns whether two lists of messages are equal; `contains` matches part of a text."""
    if [message["role"] for message in meant] != [message["role"] for message in found]:
        return False
    pairs = [(a["blocks"], b["blocks"]) for a, b in zip(meant, found)]
    return all(len(a) == len(b) and all(map(same_block, a, b)) for a, b in pairs)


def same_block(meant, found):
    """Compares two blocks; the clients may add a final newline to a text."""
    if "contains" in meant:
        return found["type"] == "text" and meant["contains"] in found["text"]
    if meant["type"] == found["type"] == "text":
        return meant["text"].rstrip("\n") == found["text"].rstrip("\n")
    return meant == found


def printed(messages):
    """Formats messages as lines for a diff."""
    return ["%s: %s" % (message["role"], json.dumps(block, ensure_ascii=False, sort_keys=True)[:300])
            for message in messages for block in message["blocks"]]


# Flaws of `annals check` for messages that a client would omit.
ANNOUNCED = {"older-client", "unresumable", "dropped"}


def judge_prediction(predicted, answer, newest):
    """Compares annals' prediction with the client's answer and that of the newest client."""
    if answer is newest:
        if answer["leaf"] == predicted.leaf or (answer["leaf"] is None and "unresumable" in predicted.reported):
            return []
        return ["the client went on from %s, annals from %s" % (answer["leaf"], predicted.leaf)]
    if answer["messages"] == newest["messages"] or ANNOUNCED & predicted.reported:
        return []
    return ["the client sends something else than %s, and `annals check` does not say so" % newest["client"]]


def run_case(name, command, clients, keep):
    """Runs one case with each client; returns client -> list of differences."""
    folder = Path(tempfile.mkdtemp(prefix="verify-client-"))
    try:
        wanted = CASES[name](Stage(command, folder))
        asked = CLIENTS if isinstance(wanted, Predicted) else clients
        answers = {client: resume_oracle.ask(wanted.file, client=client, session_id=wanted.file.stem)
                   for client in asked}
        if isinstance(wanted, Predicted):
            return {client: judge_prediction(wanted, answers[client], answers[CLIENTS[0]]) for client in clients}
        return {client: wanted.faults + judge(wanted, answers[client]) for client in clients}
    except (AnnalsError, KeyError, ValueError, IndexError) as error:
        detail = str(error) if isinstance(error, AnnalsError) else traceback.format_exc(limit=-2)
        return {client: ["annals could not write the session: " + detail] for client in clients}
    finally:
        if keep:
            print("kept: %s" % folder, file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


# --- the report ------------------------------------------------------------------------------------


def table(outcome, clients):
    """Formats the results as rows of text."""
    width = max(map(len, outcome))
    rows = ["%-*s  %s" % (width, "case", "  ".join("%-8s" % client for client in clients))]
    for name, verdicts in outcome.items():
        marks = "  ".join("%-8s" % ("differs" if verdicts[client] else "ok") for client in clients)
        rows.append("%-*s  %s" % (width, name, marks))
    return rows


def page(outcome, clients, version, command):
    """Formats the results as a page of documentation. `command` has the options of this run."""
    failed = sum(bool(lines) for verdicts in outcome.values() for lines in verdicts.values())
    random = {name: outcome[name] for name in outcome if name.startswith("random-")}
    cases = {name: outcome[name] for name in outcome if name not in random}
    rows = ["| case | what annals wrote | %s |" % " | ".join(clients), "|---|---|%s" % ("---|" * len(clients))]
    for name, verdicts in cases.items():
        marks = " | ".join("differs" if verdicts[client] else "ok" for client in clients)
        rows.append("| `%s` | %s | %s |" % (name, " ".join(CASES[name].__doc__.split()), marks))
    if random:
        marks = " | ".join("%d of %d ok" % (sum(not one[client] for one in random.values()), len(random))
                           for client in clients)
        rows.append("| `%s` to `%s` | random operations, one seed each: turns of one to three blocks with and without "
                    "calls, models and given times (equal, decreasing, in the future), branches, compactions, forks, titles, "
                    "tags and notes, `export` and `import`, `convert` to another layout and back with and without "
                    "origin | %s |" % (*[list(random)[at] for at in (0, -1)], marks))
    return """# The real client reads what annals writes

Result of `python3 tools/verify/verify_client.py %s` on %s with %s and
the Claude Code clients %s: %s.

Each row is a session that annals wrote. `ok` means that the client resumed the session, sent exactly the expected messages
to the (mock) API, continued from the entry that annals wrote last, inserted no messages, and changed no byte of the file.
Rows whose names start with `reads-` are sessions of other programs. There `ok` means that annals continues at the entry
where client 2.1.325 resumes, and that `annals check` reports it if client 2.0.77 sends something else. To repeat the test
you need Node with npm, and the npm registry once per client version. It does not read or write your own `~/.claude`.

%s

[tools/verify/README.md](https://github.com/annals-dev/annals/blob/main/tools/verify/README.md) documents what the clients require of a file. It was found with the same
tools.
""" % (command, datetime.date.today().isoformat(), version, " and ".join(clients),
       "all as expected" if not failed else "%d of %d differ" % (failed, len(outcome) * len(clients)), "\n".join(rows))


def parse_arguments():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annals", help="the program; default: target/release/annals, built if missing")
    parser.add_argument("--client", action="append", choices=CLIENTS, help="only this client; may be repeated")
    parser.add_argument("--case", action="append", choices=sorted(CASES), help="only this case; may be repeated")
    parser.add_argument("--random", type=int, metavar="N", help="N random sessions instead of the cases; with --write, beside them")
    parser.add_argument("--seed", type=int, default=1, help="where the random sessions begin; default: 1")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--write", metavar="FILE", help="write the outcome as a Markdown page")
    parser.add_argument("--keep", action="store_true", help="leave the sessions that were written")
    return parser.parse_args()


def main():
    """Runs the cases, prints the results, returns the exit code."""
    arguments = parse_arguments()
    clients = [client for client in CLIENTS if client in (arguments.client or CLIENTS)]
    try:
        command = find_annals(arguments.annals)
        for client in clients:
            resume_oracle.installed_client(client)
        version = Annals(command, ".").run("--version").strip()
    except (AnnalsError, resume_oracle.OracleError, OSError) as error:
        print("verify_client: %s" % error, file=sys.stderr)
        return 2
    outcome = {}
    if arguments.random:
        if not arguments.write:
            CASES.clear()
        client_random.register(case, arguments.seed, arguments.random)
    for name in CASES:
        if arguments.case and name not in arguments.case:
            continue
        outcome[name] = run_case(name, command, clients, arguments.keep)
        if not arguments.json:
            for client, lines in outcome[name].items():
                print("%-24s %-8s %s" % (name, client, "differs" if lines else "ok"), flush=True)
                for line in lines:
                    print("    " + line.replace("\n", "\n    "))
    failed = any(lines for verdicts in outcome.values() for lines in verdicts.values())
    if arguments.json:
        print(json.dumps({"ok": not failed, "annals": version, "clients": clients, "cases": outcome},
                         indent=1, ensure_ascii=False))
    else:
        print()
        print("\n".join(table(outcome, clients)))
    if arguments.write:
        Path(arguments.write).parent.mkdir(parents=True, exist_ok=True)
        options = {"--random": arguments.random, "--seed": arguments.seed, "--write": arguments.write}
        command = " ".join(f"{name} {value}" for name, value in options.items() if value)
        Path(arguments.write).write_text(page(outcome, clients, version, command), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    # The other case modules import this one under its own name.
    sys.modules["verify_client"] = sys.modules["__main__"]
    import client_cases  # noqa: E402,F401
    import client_random  # noqa: E402
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
