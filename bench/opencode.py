#!/usr/bin/env python3
"""Measures annals on a large OpenCode database, and a writer beside it, in one run. See README.md beside this file.

    bench/opencode.py                  a database of 1 GB (made once, in bench/out)
    bench/opencode.py --size 100M --repeats 5 --annals PROGRAM

Variants take turns; the table has the median of CPU time. Meanwhile another process inserts rows, as the agent does, and
counts how often the database was locked for it. Counts are checked against the manifest of tools/gencorpus/opencode.py.
Exit codes: 0 all targets met and all counts right, 1 something missed, 2 could not run.
"""
import argparse
import contextlib
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

from run import ANNALS, OUT, REPO, Unable, child, say

RARE = "quetzalcoatl"
# A writer: a transaction of one row every few milliseconds, until its standard input ends. It waits for no lock.
WRITER = """
import json, os, select, sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
database.execute("PRAGMA wal_autocheckpoint = 0")
written, blocked, slowest, smallest, size = 0, 0, 0.0, 0, 0
while not select.select([sys.stdin], [], [], 0.005)[0]:
    begin = time.monotonic()
    try:
        database.execute("BEGIN IMMEDIATE")
        database.execute("UPDATE project SET time_updated = time_updated + 1 WHERE id = 'global'")
        database.execute("COMMIT")
        written += 1
    except sqlite3.OperationalError:
        blocked += 1
    slowest = max(slowest, time.monotonic() - begin)
    now = os.path.getsize(sys.argv[1] + "-wal")
    smallest += now < size
    size = now
print(json.dumps({"written": written, "blocked": blocked, "slowest": slowest, "checkpoints": smallest}))
"""


def database(size):
    """Generates the database once, and returns its folder."""
    folder = os.path.join(OUT, f"opencode-{size.lower()}")
    if not os.path.exists(os.path.join(folder, "manifest.json")):
        shutil.rmtree(folder, ignore_errors=True)
        say(f"generating {folder}")
        script = os.path.join(REPO, "tools", "gencorpus", "opencode.py")
        subprocess.run([sys.executable, "-B", script, "--out", folder, "--size", size], check=True, stdout=sys.stderr)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="1G")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--annals", default=ANNALS, metavar="PROGRAM")
    args = parser.parse_args()
    try:
        return measure(args)
    except (Unable, OSError, sqlite3.Error, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 2


def measure(args):
    root = os.path.realpath(database(args.size))
    path = os.path.join(root, "opencode.db")
    with open(os.path.join(root, "manifest.json"), encoding="utf-8") as file:
        truth = json.load(file)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        query = "SELECT session_id FROM message GROUP BY session_id ORDER BY count(*)"
        sessions = [session for (session,) in connection.execute(query)]
        largest, median = sessions[-1], sessions[len(sessions) // 2]
    runs, printed = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        env = {"PATH": os.environ["PATH"], "HOME": scratch, "TZ": "UTC", "ANNALS_STATE_DIR": os.path.join(scratch, "state")}
        annals = [args.annals, "--root", f"opencode:{root}"]
        variants = {"sessions, no index": [*annals, "--no-index", "sessions", "--json"],
                    "sessions": [*annals, "sessions", "--json"],
                    "show --last 20": [*annals, "show", median, "--last", "20"],
                    "show --last 20, largest": [*annals, "show", largest, "--last", "20"],
                    "search": [*annals, "search", RARE, "--json", "--limit", "1000"]}
        out = os.path.join(scratch, "out")
        say("filling the index")
        first = child([*annals, "index", "build"], out, env=env)
        child(variants["sessions"], out, env=env)
        for beside in (False, True):
            writer = None
            if beside:
                writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                time.sleep(0.5)
            for _ in range(args.repeats):
                for name, command in variants.items():
                    runs.setdefault((name, beside), []).append(child(command, out, env=env))
                    with open(out, encoding="utf-8") as file:
                        printed[name] = file.read()
            if writer:
                wrote = json.loads(writer.communicate()[0])
    cpu = {key: statistics.median(one[0] for one in ones) * 1000 for key, ones in runs.items()}
    rows = [("sessions, ms of CPU", cpu["sessions", False], "<", 100),
            ("show --last 20 of a median session, ms of CPU", cpu["show --last 20", False], "<", 50),
            ("show --last 20 of the largest, ms of CPU", cpu["show --last 20, largest", False], "<", 50),
            ("search of a rare word, ms of CPU", cpu["search", False], "<", 20),
            ("transactions that a writer could not begin", wrote["blocked"], "<", 1),
            ("checkpoints while annals read", wrote["checkpoints"], "<", 1)]
    missed = False
    print(f"{truth['sessions']} sessions, {truth['messages']} messages, {truth['database_bytes'] / 1e6:.0f} MB; median of {args.repeats}")
    for name, found, sign, target in rows:
        missed |= found >= target
        print(f"  {name:46} {found:8.1f}  {sign} {target:<4} {'MISSED' if found >= target else 'met'}")
    print(f"  {'the index, made from nothing':46} {first[0] * 1000:8.0f} ms of CPU, {first[2]:.0f} MB")
    for name in variants:
        peak = max(one[2] for one in runs[name, False])
        print(f"  {name:46} {cpu[name, False]:8.1f} ms of CPU, {peak:.0f} MB; beside a writer {cpu[name, True]:.1f}")
    print(f"  a writer of {wrote['written']} transactions: the slowest took {wrote['slowest'] * 1000:.1f} ms")
    sessions = json.loads(printed["sessions"])["sessions"]
    hits = json.loads(printed["search"])
    found = (len(sessions), sum(one["usage"]["output"] for one in sessions), len(hits["hits"]))
    right = (truth["sessions"], truth["output_tokens"], truth["rare"])
    if found != right:
        print(f"  WRONG: sessions, output tokens, hits: {found} instead of {right}")
    return 1 if missed or found != right else 0


if __name__ == "__main__":
    sys.exit(main())
