#!/usr/bin/env python3
"""Measures `annals watch`: how long after the writer's `write` a line comes out, and what waiting costs.

    bench/watch.py                  100 logs that grow, beside `tail -F`; then 1,000 logs that do not
    bench/watch.py --files 1000     more logs
    bench/watch.py --json           one JSON document instead of the table
    bench/watch.py --annals PROGRAM the program to measure, taken as it is

A writer of its own process appends to the logs in turns, one `write` a line. Each line carries the monotonic time just before
its `write`; it is compared with the time at which this script read the line from the program's standard output, so
that both the script's and the writer's turns on the machine are part of every figure: the peer tells how much that is.
Standard library only. Exit code: 0 all targets met, 1 something missed or lost, 2 could not be run.
"""
import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from run import ANNALS, REPO, say

MARK = re.compile(rb"written at (\d+)")
PAUSE = 0.005


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100, help="logs that grow (100)")
    parser.add_argument("--lines", type=int, default=2000, help="lines in all (2000)")
    parser.add_argument("--idle", type=int, default=1000, help="logs that are watched while nothing happens (1000)")
    parser.add_argument("--seconds", type=float, default=10, help="how long nothing happens (10)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--annals", default=ANNALS, metavar="PROGRAM", help="the program to measure, taken as it is")
    parser.add_argument("--write", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.write:
        return write(*args.write)
    if args.annals == ANNALS:
        say("building")
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "annals-cli"], cwd=REPO, check=True, stdout=sys.stderr)
    work = tempfile.mkdtemp(prefix="annals-watch-")
    try:
        report = measure(args, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(json.dumps(report, indent=1) if args.json else table(report))
    return 0 if all(row["met"] is not False for row in report["rows"]) else 1


def measure(args, work):
    os.environ["ANNALS_STATE_DIR"] = os.path.join(work, "state")
    busy, still = os.path.join(work, "busy"), os.path.join(work, "still")
    logs = make(busy, args.files)
    make(still, args.idle)
    watch = [args.annals, "--root", "claude-code:" + busy, "watch", "--all", "-n", "0"]
    variants = {
        "annals watch --json": watch + ["--json"],
        "annals watch": watch,
        "annals watch --poll": watch + ["--json", "--poll"],
        "tail -F": ["tail", "-q", "-n", "0", "-F"] + logs,
    }
    rows = []
    for name, command in variants.items():
        say(name)
        found = latencies(command, busy, args.files, args.lines)
        lost = args.lines - len(found["ms"])
        ms = sorted(found["ms"])
        row = {"what": name, "p50": at(ms, 0.5), "p99": at(ms, 0.99), "max": ms[-1] if ms else None,
               "lost": lost, "cpu_ms": round(found["cpu"] * 1000, 1), "met": None}
        if name.startswith("annals") and "--poll" not in name:
            row["met"] = lost == 0 and row["p50"] < 5 and row["p99"] < 50
        rows.append(row)
    say("waiting")
    cpu, switches = waiting([args.annals, "--root", "claude-code:" + still, "watch", "--all", "-n", "0", "--json"], args.seconds)
    rows.append({"what": f"{args.idle} logs for {args.seconds:g} s", "cpu_ms": round(cpu * 1000, 2), "wakeups": switches,
                 "met": cpu < 0.001 * args.seconds})
    return {"load": os.getloadavg()[0], "rows": rows}


def make(root, count):
    """A root of that many logs."""
    logs = []
    for n in range(count):
        folder = os.path.join(root, "projects", f"-home-me-app{n % 20}")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, session(n) + ".jsonl")
        with open(path, "wb") as log:
            log.writelines(line(n, k, "before") for k in range(20))
        logs.append(path)
    return logs


def session(n):
    return f"{n:08x}-0000-4000-8000-000000000000"


def line(n, k, text):
    record = {"parentUuid": None, "isSidechain": False, "cwd": f"/home/me/app{n % 20}", "sessionId": session(n), "version": "2.1.0",
              "gitBranch": "main", "type": "assistant", "uuid": f"{n:08x}-0000-4000-8000-{k:012x}", "timestamp": "2026-11-15T10:00:00.000Z",
              "message": {"id": f"msg_{n}_{k}", "role": "assistant", "model": "m", "content": [{"type": "text", "text": text + " " + "x" * 1200}]}}
    return json.dumps(record).encode() + b"\n"


def write(root, files, lines):
    """The writer: a process of its own, so that it does not wait for the reader."""
    files, lines = int(files), int(lines)
    open_logs = [os.open(os.path.join(root, "projects", f"-home-me-app{n % 20}", session(n) + ".jsonl"),
                         os.O_WRONLY | os.O_APPEND) for n in range(files)]
    start = time.time_ns() // 1000
    for k in range(lines):
        n = k % files
        before, after = line(n, start + k, "written at @@").split(b"@@")
        os.write(open_logs[n], before + str(time.monotonic_ns()).encode() + after)
        time.sleep(PAUSE)
    return 0


def latencies(command, root, files, lines):
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out = child.stdout.fileno()
    if "--json" in command:
        wait_for(out, b'"live"')
    else:
        time.sleep(1)
    writer = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--write", root, str(files), str(lines)])
    found, rest = [], b""
    deadline = time.monotonic() + lines * PAUSE * 10 + 30
    os.set_blocking(out, True)
    while len(found) < lines and time.monotonic() < deadline:
        block = os.read(out, 1 << 16)
        now = time.monotonic_ns()
        if not block:
            break
        rest += block
        end = rest.rfind(b"\n") + 1
        found.extend((now - int(mark)) / 1e6 for mark in MARK.findall(rest[:end]))
        rest = rest[end:]
        if writer.poll() is not None and len(found) >= lines:
            break
    writer.wait()
    child.send_signal(signal.SIGINT)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    child.stdout.close()
    return {"ms": found, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def wait_for(out, text):
    seen = b""
    while text not in seen:
        block = os.read(out, 1 << 16)
        if not block:
            sys.exit("the program ended at once")
        seen += block


def waiting(command, seconds):
    """What a program spends while nothing happens, and how often it was woken."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_for(child.stdout.fileno(), b'"live"')
    time.sleep(0.5)
    before = spent(child.pid)
    time.sleep(seconds)
    after = spent(child.pid)
    child.send_signal(signal.SIGINT)
    child.wait()
    child.stdout.close()
    return after[0] - before[0], after[1] - before[1]


def spent(pid):
    """CPU seconds and voluntary switches of all threads, to the nanosecond where the kernel says so."""
    cpu, switches = 0, 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as stat:
            cpu += int(stat.read().split()[0])
        with open(f"/proc/{pid}/task/{thread}/status") as status:
            switches += int(re.search(r"voluntary_ctxt_switches:\s*(\d+)", status.read())[1])
    return cpu / 1e9, switches


def at(values, share):
    return round(values[min(len(values) - 1, int(len(values) * share))], 2) if values else None


def table(report):
    lines = [f"load {report['load']:.1f}", "", "| what | p50 ms | p99 ms | max ms | lost | CPU ms | |", "|---|---|---|---|---|---|---|"]
    for row in report["rows"]:
        met = {True: "met", False: "MISSED", None: ""}[row["met"]]
        if "wakeups" in row:
            lines.append(f"| {row['what']}, nothing written | | | | {row['wakeups']} wakeups | {row['cpu_ms']} | {met} |")
        else:
            high = round(row["max"], 2) if row["max"] is not None else None
            lines.append(f"| {row['what']} | {row['p50']} | {row['p99']} | {high} | {row['lost']} | {row['cpu_ms']} | {met} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
