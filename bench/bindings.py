#!/usr/bin/env python3
"""Compares the packages for Python and Node with the library in Rust.

    bench/bindings.py --python INTERPRETER --node PACKAGE_DIR [--rounds N] [--json]

INTERPRETER has the package annals-store installed, PACKAGE_DIR is bindings/node with its addon, both built in the
release profile. Builds the example `bench_calls` and writes a session of 10,000 messages. Each round runs the library
and both packages in turn on it; the table has the median of the rounds. CPU time except for durable appends: there
the programs of a round run side by side and append in turn, a few each time, so that all meet the same disk. Their
figure is the ratio of the medians of all rounds; the lowest and highest ratio of one round are beside it. Wall time depends
on the disk and on whatever else runs, so CPU time and, with strace, the number of system calls of an append are counted, too.

Exit codes: 0 all targets met, 1 a target missed, 2 could not run.
"""
import argparse
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
EXAMPLE = REPOSITORY / "target" / "release" / "examples" / "bench_calls"
LONG, SHORT = "11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"
TEXT = "the quick brown fox jumps over the lazy dog " * 5


def median_time(now, rounds, calls, work):
    """Returns the seconds of a call: the median of several rounds of calls."""
    times = []
    for _ in range(rounds):
        began = now()
        for _ in range(calls):
            work()
        times.append((now() - began) / calls)
    return statistics.median(times)


def measure(root, state):
    """Measures the Python package."""
    from annals_store import Root, Store

    store = Store(Root("claude-code", root), state=state, index=False, zone="UTC")
    long, short = store.session(LONG), store.session(SHORT)
    rows = long.messages()
    leaf = short.messages()[-1]["id"]
    text = json.dumps(rows)
    cpu = time.process_time
    found = {
        "call_us": 1e6 * median_time(cpu, 40, 200, lambda: short.raw(leaf)),
        "messages_ms": 1e3 * median_time(cpu, 15, 1, long.messages),
        "parse_ms": 1e3 * median_time(cpu, 15, 1, lambda: json.loads(text)),
    }
    with store.begin("/home/me/app", durability="os") as writer:
        found["append_os_us"] = 1e6 * median_time(cpu, 300, 1, lambda: writer.user("Go on."))
    print(json.dumps(found), flush=True)
    with store.begin("/home/me/app") as writer:
        for line in sys.stdin:
            times = []
            for _ in range(int(line)):
                began = time.perf_counter()
                writer.user("Go on.")
                times.append(1e6 * (time.perf_counter() - began))
            print(json.dumps(times), flush=True)


# Durable appends of each program in a round, and how many it makes before it is the turn of the next.
APPENDS, TURN = 200, 5


# Each way to append: the program, the name of its figures, and what it is told after the number of appends.
WAYS = [("rust", "append_disk", ""), ("python", "append_disk", ""), ("node", "append_disk", ""), ("node", "append_disk_sync", " sync")]

# The ways that are compared with Rust.
OTHERS = [("Python", "python", "append_disk"), ("Node, awaited", "node", "append_disk"), ("Node, Sync", "node", "append_disk_sync")]

# System calls that are counted.
COUNTED = ["fsync", "fdatasync", "openat", "flock"]


def start(command):
    """Starts a program, and returns it with its figures. They are there when it has measured its CPU time."""
    running = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return running, json.loads(running.stdout.readline())


def ask(running, line):
    running.stdin.write(line + "\n")
    running.stdin.flush()
    return json.loads(running.stdout.readline())


def cpu_of(running):
    """Returns the CPU seconds of another process so far (clock_getcpuclockid(3))."""
    return time.clock_gettime((~running.pid << 3) | 2)


def count_calls(command, kind):
    """Returns the number of system calls of one durable append."""
    counts = []
    for appends in [0, APPENDS]:
        with tempfile.NamedTemporaryFile() as trace:
            traced = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=" + ",".join(COUNTED), "-o", trace.name, *command]
            running, _ = start(traced)
            ask(running, f"{appends}{kind}")
            running.stdin.close()
            running.wait()
            begun = re.findall(r"^\d+ +(\w+)\(", Path(trace.name).read_text(), re.MULTILINE)
            counts.append({name: begun.count(name) for name in COUNTED})
    before, after = counts
    return {name: (after[name] - before[name]) / APPENDS for name in COUNTED}


def run_round(commands):
    """Runs the programs, and returns the figures of each."""
    found, running = {}, {}
    for name, command in commands.items():
        running[name], found[name] = start(command)
    times, cpu = {way: [] for way in WAYS}, {way: 0.0 for way in WAYS}
    turns = list(WAYS)
    for _ in range(APPENDS // TURN):
        # Whoever appends after another program may find its journal committed.
        random.shuffle(turns)
        for way in turns:
            name, _, kind = way
            before = cpu_of(running[name])
            times[way] += ask(running[name], f"{TURN}{kind}")
            cpu[way] += cpu_of(running[name]) - before
    for way in WAYS:
        name, figure, _ = way
        found[name][figure + "_us"] = times[way]
        found[name][figure + "_cpu_us"] = 1e6 * cpu[way] / APPENDS
    for name, program in running.items():
        program.stdin.close()
        if program.wait() != 0:
            raise RuntimeError(f"{name} failed")
    return found


def write_history(python, root, state):
    """Writes a long and a short session."""
    code = f"""
from annals_store import Root, Store
store = Store(Root("claude-code", {str(root)!r}), state={str(state)!r})
with store.begin("/home/me/app", id={LONG!r}, durability="os") as writer:
    for start in range(0, 10_000, 1_000):
        drafts = []
        for number in range(start, start + 1_000):
            text = f"message {{number}}: {TEXT}"
            reply = {{"role": "assistant", "content": text, "model": "claude-sonnet-4-5",
                     "usage": {{"input_tokens": 10, "output_tokens": 5}}}}
            drafts.append(reply if number % 2 else {{"role": "user", "content": text}})
        writer.append(*drafts)
with store.begin("/home/me/app", id={SHORT!r}, durability="os") as writer:
    writer.user("Go on.")
"""
    subprocess.run([python, "-c", code], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--node", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--directory", type=Path, help="on the disk to measure")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(*given.measure)
        return 0
    if not given.no_build:
        build = ["cargo", "build", "--release", "-p", "annals", "--example", "bench_calls"]
        if subprocess.run(build, cwd=REPOSITORY, check=False).returncode != 0:
            return 2
    samples = {"rust": [], "python": [], "node": []}
    with tempfile.TemporaryDirectory(dir=given.directory) as folder:
        root, state = Path(folder) / "root", Path(folder) / "state"
        write_history(given.python, root, state)
        commands = {
            "rust": [EXAMPLE, root, state, LONG, SHORT],
            "python": [given.python, "-B", __file__, "--python", ".", "--node", ".", "--measure", root, state],
            "node": ["node", REPOSITORY / "bench" / "node.mjs", given.node, root, state, LONG, SHORT],
        }
        for _ in range(given.rounds):
            for name, found in run_round(commands).items():
                samples[name].append(found)
        calls = {}
        if shutil.which("strace"):
            calls = {(name, figure): count_calls(commands[name], kind) for name, figure, kind in WAYS}

    def each(compute):
        """Returns the median of a figure that is computed for each round."""
        rounds = zip(samples["rust"], samples["python"], samples["node"])
        return statistics.median(compute(*one) for one in rounds)

    def appends(name, figure):
        """Returns the ratio of the medians of all durable appends, and the lowest and highest of one round."""
        own = [one[figure + "_us"] for one in samples[name]]
        rust = [one["append_disk_us"] for one in samples["rust"]]
        ratio = statistics.median(sum(own, [])) / statistics.median(sum(rust, []))
        rounds = [statistics.median(a) / statistics.median(b) for a, b in zip(own, rust)]
        return ratio, f"rounds {min(rounds):.2f} to {max(rounds):.2f}"

    rows = [
        ("a call from Python, µs of CPU over Rust", each(lambda r, p, n: p["call_us"] - r["call_us"]), 5),
        ("a call from Node, awaited, µs of CPU over Rust", each(lambda r, p, n: n["call_us"] - r["call_us"]), 60),
        ("a call from Node, awaited, µs of wall time over Rust", each(lambda r, p, n: n["call_wall_us"] - r["call_us"]), None),
        ("a call from Node, Sync, µs of CPU over Rust", each(lambda r, p, n: n["call_sync_us"] - r["call_us"]), None),
        ("10,000 messages in Python / Rust and json.loads",
         each(lambda r, p, n: p["messages_ms"] / (r["messages_ms"] + p["parse_ms"])), 1.5),
        ("10,000 messages in Node / Rust and JSON.parse",
         each(lambda r, p, n: n["messages_ms"] / (r["messages_ms"] + n["parse_ms"])), 1.5),
        ("10,000 messages in Node, Sync / Rust and JSON.parse",
         each(lambda r, p, n: n["messages_sync_ms"] / (r["messages_ms"] + n["parse_ms"])), None),
        *[(f"durable append from {title} / Rust, wall time", *appends(name, figure), 1.1) for title, name, figure in OTHERS],
        *[(f"durable append from {title}, µs of CPU over Rust",
           each(lambda r, p, n, name=name, figure=figure: {"python": p, "node": n}[name][figure + "_cpu_us"] - r["append_disk_cpu_us"]),
           None) for title, name, figure in OTHERS],
        ("append without sync from Python, µs of CPU over Rust",
         each(lambda r, p, n: p["append_os_us"] - r["append_os_us"]), None),
        ("append without sync from Node, Sync, µs of CPU over Rust",
         each(lambda r, p, n: n["append_os_sync_us"] - r["append_os_us"]), None),
    ]
    for title, name, figure in OTHERS if calls else ():
        syncs, of_rust = (calls[way]["fsync"] + calls[way]["fdatasync"] for way in [(name, figure), ("rust", "append_disk")])
        rows.append((f"syncs of a durable append from {title} / Rust", syncs / of_rust, 1))
    if given.json:
        print(json.dumps({"samples": samples, "rows": rows, "calls": {" ".join(way): found for way, found in calls.items()}}))
    else:
        for name, found, *range_of_rounds, target in rows:
            verdict = "" if target is None else f"≤ {target:<4} " + ("met" if found <= target else "MISSED")
            print(f"{name:<56} {found:>8.2f}  {verdict} {' '.join(range_of_rounds)}".rstrip())
        medians = {name: statistics.median(one[name] for one in samples["rust"]) for name in samples["rust"][0]
                   if name != "append_disk_us"}
        medians["append_disk_us"] = statistics.median(sum((one["append_disk_us"] for one in samples["rust"]), []))
        print("Rust: " + ", ".join(f"{name} {value:.1f}" for name, value in medians.items()))
        for (name, figure), found in calls.items():
            print(f"system calls of {figure} from {name}: " + ", ".join(f"{call} {count:.2f}" for call, count in found.items()))
    return int(any(target is not None and found > target for _, found, *_, target in rows))


if __name__ == "__main__":
    sys.exit(main())
