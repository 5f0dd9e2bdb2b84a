#!/usr/bin/env python3
"""Proves that the real Claude Code client reads a whole history again after `annals repair`.

Each case damages a healthy session in one way and defines which messages that destroys. The client
is run (through tools/resume-oracle) before and after `annals repair --apply`; afterwards it must
read every message that was not destroyed, in order, and no other. A second repair must find
nothing, and `--undo` must restore the damaged bytes with their mode and time.

    verify_repair.py                                  every case, every client
    verify_repair.py --case torn-then-glued --client 2.0.77
    verify_repair.py --no-before                      runs the client only after the repair

Downloads the clients with npm on first use. Exit codes: 0 all as expected, 1 something differs, 2
could not run.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "resume-oracle")]
import resume_oracle  # noqa: E402
from annals_cli import Annals, AnnalsError, find_annals  # noqa: E402

CLIENTS = ["2.1.325", "2.0.77"]
SESSION = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
MODEL = "claude-sonnet-4-5-20250929"
CASES = {}
# More than the five seconds within which client 2.1.325 bridges a missing parent.
STEP = 20


def case(name, **options):
    """Registers a function (lines) -> (bytes, numbers of the destroyed messages)."""
    def register(function):
        CASES[name] = (function, options)
        return function
    return register


# --- the healthy session -----------------------------------------------------------------------


def uuid(number):
    """Returns the uuid of message `number`; 0 means none."""
    return "%08x-0000-4000-8000-000000000000" % number if number else None


def text(number):
    """Returns the text of message `number`."""
    return "%s-%02d %s" % ("Question" if number % 2 else "Answer", number, "word " * 12)


def message(number, parent, own=None, said=None):
    """Returns a line with the client's order of members; `own` overrides the message's id."""
    person = number % 2
    seconds = number * STEP
    body = {"role": "user", "content": said or text(number)} if person else {
        "id": "msg_%04d" % number, "type": "message", "role": "assistant", "model": MODEL,
        "content": [{"type": "text", "text": said or text(number)}], "stop_reason": "end_turn",
        "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 20}}
    line = {"parentUuid": uuid(parent), "isSidechain": False, "userType": "external", "cwd": "/work",
            "sessionId": SESSION, "version": "2.0.77", "gitBranch": "",
            "type": "user" if person else "assistant", "message": body}
    if not person:
        line["requestId"] = "req_%04d" % number
    line["uuid"] = uuid(own or number)
    line["timestamp"] = "2026-11-10T05:%02d:%02d.000Z" % divmod(seconds, 60)
    return json.dumps(line, separators=(",", ":")).encode()


def chain(count=10):
    """Returns a linear conversation of `count` messages."""
    return [message(number, number - 1) for number in range(1, count + 1)]


def file_of(lines, end=b"\n"):
    """Joins lines into a file."""
    return b"".join(line + end for line in lines)


# --- the damages: line 5 is message 5 ------------------------------------------------------------


@case("torn-then-glued")
def torn_then_glued(lines):
    """a record was torn and the next one written after it on the same line"""
    return file_of(lines[:4]) + lines[4][:len(lines[4]) // 2] + file_of(lines[5:]), {5}


@case("glued")
def glued(lines):
    """two records on one line"""
    return file_of(lines[:4]) + lines[4] + file_of(lines[5:]), set()


@case("three-glued")
def three_glued(lines):
    """three records on one line"""
    return file_of(lines[:3]) + lines[3] + lines[4] + file_of(lines[5:]), set()


@case("nul-line")
def nul_line(lines):
    """a record's bytes are NULs"""
    return file_of(lines[:4] + [bytes(len(lines[4]))] + lines[5:]), {5}


@case("nul-before")
def nul_before(lines):
    """NULs before a record"""
    return file_of(lines[:4] + [bytes(512) + lines[4]] + lines[5:]), set()


@case("nul-within")
def nul_within(lines):
    """NULs within a record"""
    at = lines[4].index(b"word") + 4
    return file_of(lines[:4] + [lines[4][:at] + bytes(64) + lines[4][at:]] + lines[5:]), set()


@case("nul-after-torn")
def nul_after_torn(lines):
    """a record was torn, NULs follow, and then the next record"""
    return file_of(lines[:4]) + lines[4][:200] + bytes(300) + file_of(lines[5:]), {5}


@case("bad-json")
def bad_json(lines):
    """one byte of a record is wrong"""
    return file_of(lines[:4] + [lines[4].replace(b'"type":"user"', b'"type":user"')] + lines[5:]), {5}


@case("half-line")
def half_line(lines):
    """the end of a record is missing"""
    return file_of(lines[:4] + [lines[4][:len(lines[4]) * 2 // 3]] + lines[5:]), {5}


@case("headless-line")
def headless_line(lines):
    """the beginning of a record is missing"""
    return file_of(lines[:4] + [lines[4][100:]] + lines[5:]), {5}


@case("half-answer")
def half_answer(lines):
    """the end of an answer is missing"""
    return file_of(lines[:5] + [lines[5][:len(lines[5]) * 2 // 3]] + lines[6:]), {6}


@case("two-half-lines")
def two_half_lines(lines):
    """the ends of two records in a row are missing"""
    return file_of(lines[:4] + [lines[4][:300], lines[5][:300]] + lines[6:]), {5, 6}


@case("scattered")
def scattered(lines):
    """several records in different places are damaged in different ways"""
    broken = list(lines)
    broken[1], broken[3], broken[6] = broken[1][:250], broken[3][120:], b"{garbage}"
    return file_of(broken), {2, 4, 7}


@case("deleted-parent")
def deleted_parent(lines):
    """a line is missing"""
    return file_of(lines[:4] + lines[5:]), {5}


@case("deleted-stretch")
def deleted_stretch(lines):
    """four lines are missing"""
    return file_of(lines[:3] + lines[7:]), {4, 5, 6, 7}


@case("first-line")
def first_line(lines):
    """the first record is unreadable"""
    return file_of([lines[0][:200]] + lines[1:]), {1}


@case("cycle", hangs="2.0.77")
def cycle(lines):
    """an early entry names a late one as its parent"""
    return file_of([lines[0], lines[1], message(3, 8)] + lines[3:]), set()


@case("self-parent", hangs="2.0.77")
def self_parent(lines):
    """an entry is its own parent"""
    return file_of(lines[:4] + [message(5, 5)] + lines[5:]), set()


@case("two-of-one-id", hangs="2.0.77")
def two_of_one_id(lines):
    """message 5 has the id of message 3, and message 6 has it as its parent"""
    return file_of(lines[:4] + [message(5, 4, own=3), message(6, 3)] + lines[6:]), set()


@case("copied-line")
def copied_line(lines):
    """a line occurs twice"""
    return file_of(lines[:5] + [lines[4]] + lines[5:]), set()


@case("byte-order-mark")
def byte_order_mark(lines):
    """a byte order mark and a damaged first line"""
    return b"\xef\xbb\xbf" + file_of([lines[0] + lines[1]] + lines[2:]), set()


@case("crlf")
def crlf(lines):
    """Windows line ends and a damaged line"""
    return file_of(lines[:4] + [lines[4][:300]] + lines[5:], b"\r\n"), {5}


@case("foreign-lines")
def foreign_lines(lines):
    """lines that no program wrote"""
    return file_of([b"null", lines[0], b"Segmentation fault", lines[1], b"[]", b"42"] + lines[2:]), set()


@case("torn-tail")
def torn_tail(lines):
    """a damaged line, and an incomplete last one, which stays"""
    return file_of(lines[:4] + [lines[4][:300]] + lines[5:9]) + lines[9][:300], {5, 10}


@case("branches", wanted=[1, 2, 6, 7, 8])
def branches(lines):
    """the first message of the newer of two branches was torn: the older one must stay out"""
    newer = [message(5, 2)[:300], message(6, 5), message(7, 6), message(8, 7)]
    return file_of(lines[:4] + newer), {5}


@case("retried", wanted=[1, 2, 3, 4, 5, 8, 9, 10])
def retried(lines):
    """two answers to a missing prompt stay alternatives"""
    return file_of(lines[:5] + [message(6, 99), message(8, 99), message(9, 8), message(10, 9)]), set()


@case("lost-call", wanted=[1, 2, 3, 6, 7, 8, 9, 10])
def lost_call(lines):
    """a tool call was torn; its result and everything after it descend from it"""
    call = message(4, 3).replace(b'{"type":"text","text":"%s"}' % text(4).encode(),
                                 b'{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}}')
    result = message(5, 4).replace(b'"%s"' % text(5).encode(),
                                   b'[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]')
    return file_of(lines[:3] + [call[:300], result] + lines[5:]), {4}


@case("sub-agent-within", wanted=[1, 2, 3, 4, 7, 8, 9, 10])
def sub_agent_within(lines):
    """the line before damaged lines is a sub-agent's: the main conversation must not continue from
    it"""
    aside = message(21, 0).replace(b'"isSidechain":false', b'"isSidechain":true')
    return file_of(lines[:4] + [lines[4][:300], aside, lines[5][:300]] + lines[6:]), {5, 6}


@case("last-prompt")
def last_prompt(lines):
    """the client's own leaf record comes before the damaged line"""
    note = {"type": "last-prompt", "lastPrompt": "x", "leafUuid": uuid(4), "sessionId": SESSION}
    return file_of(lines[:4] + [json.dumps(note).encode(), lines[4][:300]] + lines[5:]), {5}


@case("lost-boundary", wanted=[7, 8, 9, 10])
def lost_boundary(lines):
    """the boundary of a compaction was torn: the summarized messages must stay out"""
    boundary = message(5, 0).replace(b'"type":"user"', b'"type":"system","subtype":"compact_boundary"')
    summary = message(7, 5).replace(b'"isSidechain"', b'"isCompactSummary":true,"isSidechain"')
    return file_of(lines[:4] + [boundary[:300], summary] + lines[7:]), {5}


# --- asking and judging ------------------------------------------------------------------------------


# Texts that the client adds after an unanswered prompt, and for a result whose call is lost.
OWN = ["No response requested.", "(no content)"]


def said(answer):
    """Returns the texts of the session that the client sent, in order."""
    blocks = [block for one in answer["messages"] or [] for block in one["blocks"]]
    texts = [block["text"].strip() for block in blocks if block["type"] == "text"]
    return [one for one in texts if one not in OWN]


def ask(file, client, patience):
    """Runs the client on a file; returns its texts, and whether it hung."""
    answer = resume_oracle.ask(file, client=client, session_id=SESSION, timeout=patience)
    return said(answer), answer["hung"]


def number_of(one):
    """Returns the number of the message with this text."""
    return int(one.split()[0].split("-")[1]) if one[:2] in ("Qu", "An") else one[:30]


def run_case(name, command, clients, before):
    """Runs one case; returns the differences, and what the clients read before the repair."""
    damage, options = CASES[name]
    folder = Path(tempfile.mkdtemp(prefix="verify-repair-"))
    differences, earlier = [], {}
    try:
        os.environ["ANNALS_STATE_DIR"] = str(folder / "state")
        project = folder / "root" / "projects" / "-work"
        project.mkdir(parents=True)
        file = project / (SESSION + ".jsonl")
        lines = chain()
        data, destroyed = damage(lines)
        file.write_bytes(data)
        file.chmod(0o640)
        os.utime(file, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
        numbers = options.get("wanted") or [n for n in range(1, len(lines) + 1) if n not in destroyed]
        wanted = [text(n).strip() for n in numbers]
        for client in clients if before else []:
            found, hung = ask(file, client, 20 if options.get("hangs") == client else 120)
            earlier[client] = "hung" if hung else "%d of %d" % (len(set(found) & set(wanted)), len(wanted))
        annals = Annals(command, folder / "root")
        done = annals.json("repair", "--apply")
        again = annals.json("repair")
        if any(one["steps"] for one in again["files"]):
            differences.append("a second repair finds something: %s" % json.dumps(again["files"])[:500])
        for client in clients:
            found, hung = ask(file, client, 120)
            if hung or found != wanted:
                differences.append("%s reads %s, meant are %s" % (
                    client, "nothing: it hung" if hung else [number_of(one) for one in found], numbers))
        steps = [step for one in done["files"] for step in one["steps"]]
        if steps:
            annals.run("repair", "--undo", SESSION)
        stat = file.stat()
        if file.read_bytes() != data or stat.st_mtime_ns != 1_700_000_000_123_456_789 or stat.st_mode & 0o777 != 0o640:
            differences.append("--undo did not give back what was there")
        return differences, earlier, [step["action"] for step in steps]
    except AnnalsError as error:
        return [str(error)], earlier, []
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    """Runs the cases and prints one line per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annals", help="the program; without it the release build")
    parser.add_argument("--case", action="append", choices=sorted(CASES), help="only this case; may be given several times")
    parser.add_argument("--client", action="append", choices=CLIENTS, help="only this client")
    parser.add_argument("--no-before", action="store_true", help="do not ask before the repair")
    arguments = parser.parse_args()
    try:
        command = find_annals(arguments.annals)
    except AnnalsError as error:
        print(error, file=sys.stderr)
        return 2
    failed = 0
    for name in arguments.case or CASES:
        differences, earlier, actions = run_case(
            name, command, arguments.client or CLIENTS, not arguments.no_before)
        failed += bool(differences)
        was = ", ".join("%s: %s" % one for one in earlier.items())
        print("%-4s %-18s %s%s" % ("FAIL" if differences else "ok", name, " ".join(actions) or "nothing to do",
                                   "  (before: %s)" % was if was else ""), flush=True)
        for difference in differences:
            print("     " + difference, flush=True)
    print("%d of %d cases failed" % (failed, len(arguments.case or CASES)) if failed else "all cases as meant")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
