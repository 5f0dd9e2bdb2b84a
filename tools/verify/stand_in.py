#!/usr/bin/env python3
"""A stand-in for `annals` that writes sessions in the simplest form that the real clients accept.

It is the control of `verify_client.py`: with it every case must be ok, and with STAND_IN_FAULT set
to one of FAULTS some case must differ. It takes no locks, does little sealing and checking, and
reads only its own files and the recorded sessions. Not for real histories.
"""
import argparse
import datetime
import json
import os
import sys
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "resume-oracle"))
from encode_path import project_dir_name  # noqa: E402

FAULTS = {"same-time", "no-last-prompt", "many-blocks", "own-message-ids", "no-seal", "note-in-chain"}
FAULT = os.environ.get("STAND_IN_FAULT")


def main():
    """Parses the part of the command line that the verification uses."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default="claude-code:.")
    parser.add_argument("--version", action="version", version="stand-in 0")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, words in (("new", ""), ("append", "session"), ("fork", "session"), ("title", "session text"),
                        ("tag", "session text"), ("notes", "action session text"), ("todos", "action session text"),
                        ("compact", "session")):
        command = verbs.add_parser(verb)
        for word in words.split():
            command.add_argument(word)
        for option in ("--cwd", "--title", "--at", "--summary"):
            command.add_argument(option, dest="new_title" if option == "--title" else None)
        command.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    root = Path(arguments.root.split(":", 1)[1])
    print(json.dumps(VERBS[arguments.verb](root, arguments)))


# --- verbs ---


def new(root, arguments):
    """Creates the session file with an unparented line in it."""
    session = str(uuid.uuid4())
    cwd = os.path.realpath(arguments.cwd)
    file = root / "projects" / project_dir_name(cwd) / (session + ".jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    write(file, [{"type": "custom-title", "customTitle": arguments.new_title or "Untitled", "sessionId": session},
                 {"type": "x-cwd", "cwd": cwd, "sessionId": session}])
    return {"session": session, "file": str(file)}


def append(root, arguments):
    """Appends the drafts from standard input, one line per content block, and names the new leaf."""
    file = log_of(root, arguments.session)
    old = entries(file)
    parent = arguments.at or leaf_of(old)
    clock = Clock(old)
    lines = []
    for draft in map(json.loads, sys.stdin):
        content = draft["content"]
        message_id = "msg_" + uuid.uuid4().hex[:20]
        whole = isinstance(content, str) or FAULT == "many-blocks"
        for part in [content] if whole else [[block] for block in content]:
            message = {"role": draft["role"], "content": part}
            if draft["role"] == "assistant":
                if isinstance(part, str):
                    message["content"] = [{"type": "text", "text": part}]
                if FAULT == "own-message-ids":
                    message_id = "msg_" + uuid.uuid4().hex[:20]
                message.update(id=message_id, type="message", model=draft.get("model", "<synthetic>"),
                               stop_reason=draft.get("stop_reason"), stop_sequence=None,
                               usage=draft.get("usage", {"input_tokens": 0, "output_tokens": 0}))
            lines.append(entry(file, draft["role"], parent, clock, message=message))
            parent = lines[-1]["uuid"]
    write(file, lines + leaf_line(file, parent))
    return {"session": file.stem, "entries": [{"id": line["uuid"]} for line in lines]}


def fork(root, arguments):
    """Copies the chain that ends in the message into a new file."""
    session, _, message = arguments.session.partition("@")
    file = log_of(root, session)
    by_uuid = {line["uuid"]: line for line in entries(file)}
    chain, at = [], message or leaf_of(list(by_uuid.values()))
    while at:
        chain.insert(0, by_uuid[at])
        at = chain[0]["parentUuid"]
    new_id = str(uuid.uuid4())
    target = file.with_name(new_id + ".jsonl")
    lines = [{**line, "sessionId": new_id, "forkedFrom": {"sessionId": session, "messageUuid": line["uuid"]}}
             for line in chain]
    lines[-1]["timestamp"] = Clock(lines).tick()
    named = [{"type": "custom-title", "customTitle": arguments.new_title, "sessionId": new_id}]
    write(target, lines + leaf_line(target, lines[-1]["uuid"]) + (named if arguments.new_title else []))
    return {"session": new_id, "file": str(target)}


def title(root, arguments):
    """Appends a custom title."""
    file = log_of(root, arguments.session)
    write(file, [{"type": "custom-title", "customTitle": arguments.text, "sessionId": file.stem}])


def beside(kind):
    """Returns a verb that appends a line outside the chain."""
    def verb(root, arguments):
        file = log_of(root, arguments.session)
        fields = {"sessionId": file.stem, kind: arguments.text}
        if FAULT == "note-in-chain" and kind == "note":
            write(file, [entry(file, "system", None, Clock(entries(file)), subtype="informational", **fields)])
        else:
            write(file, [{"type": kind, **fields}])
    return verb


def compact(root, arguments):
    """Appends a boundary and a summary."""
    file = log_of(root, arguments.session)
    old = entries(file)
    clock = Clock(old)
    boundary = entry(file, "system", None, clock, subtype="compact_boundary", content="Conversation compacted",
                     isMeta=False, level="info", logicalParentUuid=leaf_of(old),
                     compactMetadata={"trigger": "manual", "preTokens": 0})
    summary = entry(file, "user", boundary["uuid"], clock, isCompactSummary=True, isVisibleInTranscriptOnly=True,
                    message={"role": "user", "content": arguments.summary})
    write(file, [boundary, summary] + leaf_line(file, summary["uuid"]))


VERBS = {"new": new, "append": append, "fork": fork, "title": title, "tag": beside("tag"), "notes": beside("note"),
         "todos": beside("todo"), "compact": compact}


# --- lines ---


class Clock:
    """Times that are later, in whole milliseconds, than every time in the log."""

    def __init__(self, old):
        newest = max((line["timestamp"] for line in old), default="1970-01-01T00:00:00.000Z")
        newest = datetime.datetime.fromisoformat(newest.replace("Z", "+00:00"))
        self.time = max(newest, datetime.datetime.now(datetime.timezone.utc))

    def tick(self):
        """Returns the next time."""
        if FAULT != "same-time":
            self.time += datetime.timedelta(milliseconds=1)
        return self.time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def entry(file, kind, parent, clock, **fields):
    """Returns one line of the chain."""
    return {"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/", "sessionId": file.stem,
            "version": "2.1.50", "gitBranch": "", "type": kind, **fields, "uuid": str(uuid.uuid4()),
            "timestamp": clock.tick()}


def leaf_line(file, leaf):
    """Returns the line that names the leaf."""
    if FAULT == "no-last-prompt":
        return []
    return [{"type": "last-prompt", "lastPrompt": "", "leafUuid": leaf, "sessionId": file.stem}]


def entries(file):
    """Returns the complete lines of the chain."""
    found = []
    for line in file.read_bytes().split(b"\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if value.get("uuid") and value.get("timestamp") and "parentUuid" in value:
            found.append(value)
    return found


def leaf_of(lines):
    """Returns the last line of the chain in file order."""
    return lines[-1]["uuid"] if lines else None


def log_of(root, session):
    """Returns the log of a session given by id or by path."""
    if session.endswith(".jsonl"):
        return Path(session)
    (found,) = root.glob("projects/*/%s.jsonl" % session)
    return found


def write(file, lines):
    """Appends lines, after a newline if the last one is torn."""
    data = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines).encode()
    with open(file, "ab+") as log:
        if log.tell() and FAULT != "no-seal":
            log.seek(-1, os.SEEK_END)
            if log.read(1) != b"\n":
                data = b"\n" + data
        log.write(data)


if __name__ == "__main__":
    main()
