#!/usr/bin/env python3
"""Measures lists of sessions: the first time, again, after five sessions grew, and of a folder of 107,000 files.

    bench/lists.py                      a history of 1 GB (made once, in bench/out) and 107,000 tiny sessions
    bench/lists.py --corpus DIR         another history of tools/gencorpus instead; it is copied before it grows
    bench/lists.py --files N            another number of tiny sessions; 0 for none
    bench/lists.py --json               one JSON document instead of the table
    bench/lists.py --annals PROGRAM     the program to measure, taken as it is

CPU is user + system time of the child, the least of the repeats. "Reading alone" is `cat` of the same logs, one after
the other; "names alone" is `find -printf` of their names, lengths and times.
Exit code: 0 all targets met, 1 something missed, 2 could not be run.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time

import run
from run import ANNALS, OUT, REPO, say

SCRATCH = os.path.join(OUT, "lists")
GROWN = 5
TARGETS = {"again": 0.060, "after 5 grew": 0.120, "many: first": 2.0, "many: again": 0.5}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", metavar="DIR", help="another history of tools/gencorpus")
    parser.add_argument("--files", type=int, default=107_000, help="how many tiny sessions lie in one folder (107000)")
    parser.add_argument("--repeats", type=int, default=3, help="how often each variant runs (3)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--annals", default=ANNALS, metavar="PROGRAM", help="the program to measure, taken as it is")
    parser.add_argument("--no-build", action="store_true", help="take the release binary as it is")
    args = parser.parse_args()
    if args.repeats < 1:
        parser.error("--repeats must be at least 1")
    if not args.no_build and args.annals == ANNALS:
        say("building")
        cargo = ["cargo", "build", "--release", "--locked", "-p", "annals-cli"]
        subprocess.run(cargo, cwd=REPO, check=True, stdout=sys.stderr)
    shutil.rmtree(SCRATCH, ignore_errors=True)
    os.makedirs(SCRATCH)
    try:
        rows = history(args) + (many(args) if args.files else [])
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
    print(json.dumps({"rows": rows}, indent=1) if args.json else table(rows))
    return 0 if all(row["met"] is not False for row in rows) else 1


def history(args):
    """Lists of a history of ordinary size."""
    corpus = args.corpus or run.history("1g")
    copy = os.path.join(SCRATCH, "history")
    say("copying the history")
    shutil.copytree(corpus, copy, symlinks=True, copy_function=shutil.copy2)
    logs = logs_of(copy)
    list_it = lister(args, copy)
    rows = [row("reading alone", least(args, lambda: cpu(["cat"] + logs))), row("names alone", names(args, copy))]
    rows.append(row("without the index", least(args, lambda: cpu(list_it("--no-index")))))
    rows.append(row("first", least(args, lambda: (forget(), cpu(list_it()))[1])))
    rows.append(row("again", least(args, lambda: cpu(list_it()))))
    grown = []
    for turn in range(args.repeats):
        grow(copy, turn)
        grown.append(cpu(list_it()))
    rows.append(row(f"after {GROWN} grew", min(grown)))
    for verb in (["projects"], ["conversations", "-n", "20"], []):
        name = " ".join(verb[:1]) or "overview"
        cpu(list_it(verb=verb))
        rows.append(row(f"{name}, again", least(args, lambda: cpu(list_it(verb=verb)))))
    return rows


def many(args):
    """Lists of one folder with very many sessions."""
    root = os.path.join(OUT, f"many-{args.files}")
    if not os.path.isdir(root):
        say(f"making {args.files:,} sessions")
        make_many(root + ".part", args.files)
        os.rename(root + ".part", root)
    list_it = lister(args, root)
    forget()
    short = ["sessions", "-n", "20"]
    return [
        row("many: names alone", names(args, root)),
        row("many: first", least(args, lambda: (forget(), cpu(list_it(verb=short)))[1])),
        row("many: again", least(args, lambda: cpu(list_it(verb=short)))),
        row("many: all as JSON", least(args, lambda: cpu(list_it("--json", verb=["sessions"])))),
    ]


def make_many(root, count):
    """Sessions of two lines each, in one folder."""
    folder = os.path.join(root, "projects", "-home-mira-big")
    os.makedirs(folder, exist_ok=True)
    for number in range(count):
        session = f"{number * 2654435761 & 0xffffffff:08x}-{number & 0xffff:04x}-4000-8000-{number:012x}"
        prompt, reply = (f"{number:08x}-{part}-4000-8000-000000000000" for part in ("1111", "2222"))
        time = f"2026-{1 + number % 10:02}-{1 + number % 28:02}T{number % 24:02}:{number % 60:02}:00"
        common = {"isSidechain": False, "cwd": "/home/mira/big", "sessionId": session, "version": "2.0.14", "gitBranch": "main"}
        usage = {"input_tokens": 4, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000, "output_tokens": 20}
        lines = [
            {"parentUuid": None, **common, "type": "user", "uuid": prompt, "timestamp": f"{time}.000Z",
             "message": {"role": "user", "content": f"Task {number}: rename the thing"}},
            {"parentUuid": prompt, **common, "type": "assistant", "uuid": reply, "timestamp": f"{time}.500Z",
             "requestId": f"req_{number}",
             "message": {"id": f"msg_{number}", "role": "assistant", "model": "claude-sonnet-4-5-20250929",
                         "content": [{"type": "text", "text": "Done."}], "usage": usage}},
        ]
        with open(os.path.join(folder, f"{session}.jsonl"), "w") as log:
            log.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def grow(copy, turn):
    """Lets some of the newest sessions go on."""
    generator = os.path.join(REPO, "tools", "gencorpus", "gencorpus.py")
    command = [sys.executable, "-B", generator, "--out", copy, "--grow", str(GROWN), "--grow-seed", str(turn + 1), "--no-truth"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    # What was changed a moment ago is read again the next time.
    time.sleep(0.05)


def lister(args, root):
    def command(*options, verb=("sessions", "-n", "20")):
        return [args.annals, "--root", f"claude-code:{root}", "--no-pager", *options, *verb]
    return command


def forget():
    shutil.rmtree(os.path.join(SCRATCH, "state"), ignore_errors=True)


def names(args, root):
    return least(args, lambda: cpu(["find", root, "-printf", "%p %s %T@ %C@ %i\n"]))


def logs_of(root):
    found = [os.path.join(at, name) for at, _, names in os.walk(root) for name in names]
    return [path for path in found if path.endswith(".jsonl")]


def least(args, measure):
    return min(measure() for _ in range(args.repeats))


def cpu(command):
    """The CPU seconds of a child that must not fail."""
    env = {**os.environ, "ANNALS_STATE_DIR": os.path.join(SCRATCH, "state"), "HOME": SCRATCH}
    child = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command[:6])} … ended with {child.returncode}")
    return used.ru_utime + used.ru_stime


def row(name, seconds):
    target = TARGETS.get(name)
    return {"name": name, "cpu": seconds, "target": target, "met": None if target is None else seconds <= target}


def table(rows):
    cpu_of = {row["name"]: row["cpu"] for row in rows}
    lines = [f"{'':24}{'CPU s':>9}{'target':>9}   beside reading or names alone"]
    for row in rows:
        base = cpu_of["many: names alone" if row["name"].startswith("many") else "reading alone"]
        target = "" if row["target"] is None else f"{row['target']:.3f}"
        mark = {None: "", True: "  met", False: "  MISSED"}[row["met"]]
        lines.append(f"{row['name']:24}{row['cpu']:9.3f}{target:>9}   {row['cpu'] / base:5.2f}×{mark}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
