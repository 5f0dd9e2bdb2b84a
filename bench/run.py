#!/usr/bin/env python3
"""Measures annals against its targets, in one run, as ratios. See README.md beside this file.

    bench/run.py            on a history and a log of 1 GB each (made once, in bench/out)
    bench/run.py --quick    on 100 MB each
    bench/run.py --json     one JSON document instead of the table

Variants take turns, so that what else the machine does hits all of them alike. CPU time and peak
memory come from the kernel's account of each child (wait4). Standard library only.
Exit code: 0 all targets met and all totals right, 1 something missed, 2 could not be run.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(HERE)
OUT = os.path.join(HERE, "out")
TARGET = os.path.join(os.environ.get("CARGO_TARGET_DIR") or os.path.join(REPO, "target"), "release")
ANNALS = os.path.join(TARGET, "annals")
SIZES = {"10m": ("10M", 30, 4), "100m": ("100M", 300, 12), "1g": ("1G", 3000, 60), "4g": ("4G", 12000, 120)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 MB instead of 1 GB")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--repeats", type=int, default=5, help="how often each variant runs (5)")
    parser.add_argument("--no-build", action="store_true", help="take the release binaries as they are")
    parser.add_argument("--totals", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.totals:
        return totals(*args.totals)
    small, large = ("10m", "100m") if args.quick else ("100m", "1g")
    if not args.no_build:
        say("building")
        cargo = ["cargo", "build", "--release", "--locked", "-p", "annals-cli", "-p", "annals", "--bins", "--examples"]
        subprocess.run(cargo, cwd=REPO, check=True, stdout=sys.stderr)
    corpus, corpus_small = history(large), history(small)
    log = single_log(10**8 if args.quick else 10**9)
    report = measure(args, corpus, corpus_small, log)
    print(json.dumps(report, indent=1) if args.json else table(report))
    return 0 if all(row["met"] is not False for row in report["rows"]) else 1


def measure(args, corpus, corpus_small, log):
    size = log_bytes(corpus)
    size_small = log_bytes(corpus_small)
    json_out = os.path.join(OUT, "sessions.json")
    check_out = os.path.join(OUT, "check.json")
    null = os.devnull
    variants = {
        "sessions": ([ANNALS, "--root", "claude-code:" + corpus, "sessions", "--json"], json_out),
        "sessions small": ([ANNALS, "--root", "claude-code:" + corpus_small, "sessions", "--json"], null),
        "check": ([ANNALS, "--root", "claude-code:" + corpus, "check", "--json"], check_out),
        "show": ([ANNALS, "show", log, "--last", "20"], null),
        "show small": ([ANNALS, "show", single_log(10**6), "--last", "20"], null),
        "version": ([ANNALS, "--version"], null),
    }
    say("running " + ", ".join(variants))
    runs = {name: [] for name in variants}
    for _ in range(args.repeats + 1):
        for name, (command, out) in variants.items():
            runs[name].append(child(command, out))
    # The first round filled the page cache.
    runs = {name: Runs(found[1:]) for name, found in runs.items()}
    say("reading alone, splitting, outlining")
    scan, tokens = {}, {}
    for line in example("bench_scan", corpus):
        what, value, *rest = line.split("\t")
        if what == "tokens":
            tokens[value] = int(rest[0])
        else:
            scan.setdefault(what, []).append(float(value))
    say("converting there and back")
    converted, same = conversions(corpus, args.repeats)
    say("appending")
    append = bench_append()
    session = {line.split("\t")[0]: float(line.split("\t")[1]) for line in example("bench_session", OUT, log)}
    say("appending beside other conversations")
    beside = {line.split("\t")[0]: [float(value) for value in line.split("\t")[1:]] for line in example("bench_register")}
    say("building trees")
    tree = {line.split("\t")[0]: float(line.split("\t")[1]) for line in example("bench_tree")}

    rows = []

    def row(what, measured, unit, target=None, met=None, note=""):
        rows.append({"what": what, "target": target, "measured": measured, "unit": unit, "met": met, "note": note})

    read = max(scan["read"])
    rate = size / 1e9 / runs["sessions"].cpu
    row("reading alone (the ceiling)", read, "GB/CPU-s", note=f"median {statistics.median(scan['read']):.2f}")
    row("reading and splitting", max(scan["split"]), "GB/CPU-s", note=f"{max(scan['split']) / read:.2f} of reading alone")
    row("outlining", max(scan["outline"]), "GB/CPU-s", note=f"{max(scan['outline']) / read:.2f} of reading alone")
    row("annals sessions --json", rate, "GB/CPU-s", "≥ 1", rate >= 1,
        f"{rate / read:.2f} of reading alone; median {size / 1e9 / runs['sessions'].cpu_median:.2f}")
    row("annals sessions, peak memory", runs["sessions"].rss, "MB", "< 100", runs["sessions"].rss < 100)
    linear = (runs["sessions"].cpu / size) / (runs["sessions small"].cpu / size_small)
    row("sessions, CPU per byte / on a history of a tenth", linear, "×", "≤ 1.3", linear <= 1.3)
    rate = size / 1e9 / runs["check"].cpu
    row("annals check --json", rate, "GB/CPU-s", note=f"{rate / read:.2f} of reading alone; {runs['check'].rss:.0f} MB")
    for way, found in converted.items():
        rate = size / 1e6 / found.cpu
        row(f"convert {way}", rate, "MB/CPU-s", "≥ 100", rate >= 100,
            f"median {size / 1e6 / found.cpu_median:.0f}; bytes of the claude-code root")
        row(f"convert {way}, peak memory", found.rss, "MB", "< 200", found.rss < 200)
    row("convert: what came back is the source", int(same), "", "1", same, "diff -r")
    few, many = beside["10"][0], beside["2000"][0]
    row("chorus: append beside 2,000 conversations / beside 10", many / few, "×", "≤ 1.3", many <= 1.3 * few,
        f"{few:.0f} and {many:.0f} µs, no sync; closing {beside['10'][1]:.0f} and {beside['2000'][1]:.0f} µs")
    show = runs["show"].cpu * 1e3
    row("annals show LOG --last 20", show, "ms CPU", "< 50", show < 50,
        f"median {runs['show'].cpu_median * 1e3:.1f}; {runs['show'].rss:.0f} MB; on 1 MB: {runs['show small'].cpu * 1e3:.1f}")
    version = runs["version"].cpu * 1e3
    row("annals --version", version, "ms CPU", "< 3", version < 3, f"median {runs['version'].cpu_median * 1e3:.1f}")
    for what, ratio, target, met, bare in append:
        if bare is None:
            row("append: " + what, ratio, "×", target, met)
        else:
            row("append / bare write+fdatasync, " + what, ratio, "×", target, *judged(met, bare))
    ratio = session["small"] / session["bare"]
    row("message by SessionWriter / bare write+fdatasync", ratio, "×", "≤ 1.3", *judged(ratio <= 1.3, session["bare"]))
    ratio = session["large"] / session["small"]
    row("message on the large log / on a small one, durable", ratio, "×", "≤ 1.3", *judged(ratio <= 1.3, session["bare"]))
    ratio = session["large cpu"] / session["small cpu"]
    row("message on the large log / on a small one, CPU", ratio, "×", "≤ 1.3", ratio <= 1.3,
        f"{session['small cpu']:.0f} µs on the small one, no sync")
    row("opening the large log for writing", session["open large"], "ms")
    for shape in ("chain", "leaves"):
        ratio = tree[shape + " large"] / tree[shape + " small"]
        what = "tree of 1,000,000 in a chain" if shape == "chain" else "tree of 100,000 leaves"
        row(what + ", per message / in a tenth", ratio, "×", "≤ 1.5", ratio <= 1.5,
            f"{tree[shape + ' small']:.0f} to {tree[shape + ' large']:.0f} ns; quadratic would be 10")

    # In a process of its own: the memory of this one counts as its children's.
    manifest = os.path.join(corpus, "manifest.json")
    checked = subprocess.run([sys.executable, __file__, "--totals", manifest, json_out, check_out],
                             check=True, stdout=subprocess.PIPE)
    truth = json.loads(checked.stdout)
    for what, expected, found in truth["rows"]:
        row(what, found, "", f"= {expected}", found == expected)
    row("output tokens by model, over all files", sum(tokens.values()), "", f"= {sum(truth['tokens'].values())}",
        {m: n for m, n in tokens.items() if n} == {m: n for m, n in truth["tokens"].items() if n})
    return {"quick": args.quick, "repeats": args.repeats, "bytes": size, "rows": rows,
            "runs": {name: found.summary() for name, found in runs.items()}}


def judged(met, bare):
    """No verdict where a bare sync waits for the scheduler's tick: everything looks alike then."""
    if bare > 1000:
        return None, f"not judged: a bare sync took {bare:.0f} µs, the machine is too busy"
    return met, f"bare {bare:.0f} µs"


def totals(manifest, sessions, check):
    """Compares what was printed with what the generator knows."""
    with open(manifest) as file:
        truth = json.load(file)
    with open(sessions) as file:
        sessions = json.load(file)["sessions"]
    with open(check) as file:
        files = json.load(file)["files"]

    def total(key):
        return sum(session[key] for session in sessions)

    flaws = [flaw["kind"] for file in files for flaw in file["flaws"]]
    output = sum(session["usage"]["output"] for session in sessions)
    last = {model: tokens["output"] for model, tokens in truth["tokens_last"].items()}
    print(json.dumps({"tokens": last, "rows": [
        ["sessions", truth["files"] - truth["sidechain_files"], len(sessions)],
        ["entries (lines that are whole)", truth["lines"], total("entries")],
        ["messages (user and assistant lines)", truth["types"]["user"] + truth["types"]["assistant"], total("messages")],
        ["sub-agents (sidechain files)", truth["sidechain_files"], total("agents")],
        ["flaws", truth["torn_lines"], total("flaws")],
        ["torn tails, by check", truth["torn_lines"], flaws.count("torn-tail")],
        # Forks repeat responses in a second session, where they do not count again.
        ["output tokens of all sessions", sum(last.values()), output],
    ]}))
    return 0


class Unable(Exception):
    """Something could not be measured, which is not the same as a target that was missed."""


class Runs:
    """Several runs of one command: the least disturbed, and the median."""

    def __init__(self, runs):
        self.runs = runs
        self.cpu = min(cpu for cpu, _, _ in runs)
        self.cpu_median = statistics.median(cpu for cpu, _, _ in runs)
        self.wall = min(wall for _, wall, _ in runs)
        self.wall_median = statistics.median(wall for _, wall, _ in runs)
        self.rss = max(rss for _, _, rss in runs)

    def summary(self):
        names = ("cpu", "cpu_median", "wall", "wall_median", "rss")
        return {name + ("_mb" if name == "rss" else "_s"): round(getattr(self, name), 4) for name in names}


def conversions(corpus, repeats):
    """The corpus to chorus and back, some times; and whether it came back as it was."""
    runs = {"claude-code → chorus": [], "chorus → claude-code": []}
    same = True
    for _ in range(repeats):
        # In a directory of its own each time: a file system that reuses what was just deleted is slow.
        with tempfile.TemporaryDirectory(dir=OUT) as there:
            away, back = os.path.join(there, "away"), os.path.join(there, "back")
            log = os.path.join(there, "log")
            for way, source, layout, into in zip(runs, (f"claude-code:{corpus}", f"chorus:{away}"),
                                                 ("chorus", "claude-code"), (away, back)):
                runs[way].append(child([ANNALS, "convert", source, "--to", layout, "--into", into], log))
            same = same and subprocess.run(["diff", "-rq", corpus, back], stdout=subprocess.DEVNULL).returncode == 0
    return {way: Runs(found) for way, found in runs.items()}, same


def child(command, out, stdin=os.devnull, env=None):
    """CPU seconds, wall seconds and peak megabytes of one run, and of the processes that it waited for."""
    with open(out, "wb") as sink, open(stdin, "rb") as source:
        start = time.monotonic()
        process = subprocess.Popen(command, stdin=source, stdout=sink, stderr=subprocess.PIPE, env=env)
        complaint = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
    # 1 says that damage was found, which is in the history on purpose.
    if process.returncode not in (0, 1):
        raise Unable(f"{' '.join(command)} ended with {process.returncode}: {complaint.decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024 / 1e6


def example(name, *args):
    found = subprocess.run([os.path.join(TARGET, "examples", name), *args], check=True, stdout=subprocess.PIPE, text=True)
    return found.stdout.splitlines()


def bench_append():
    """The rows of bench_append that have a target. It exits with 1 if one was missed."""
    with tempfile.TemporaryDirectory(dir=OUT) as scratch:
        command = [os.path.join(TARGET, "examples", "bench_append"), scratch]
        text = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    rows = []
    for line in text.splitlines():
        words = line.split()
        if words and words[-1] in ("met", "MISSED"):
            ratio, target = float(words[-4]), " ".join(words[-3:-1])
            # Rows of one writer begin with the two times, in microseconds.
            bare = float(words[-6]) if line.startswith("log of") else None
            rows.append((line[:44].strip(), ratio, target, words[-1] == "met", bare))
    if len(rows) != 4:
        raise Unable("bench_append said something else:\n" + text)
    return rows


def history(name):
    """A history by tools/gencorpus, made once."""
    path = os.path.join(OUT, "corpus-" + name)
    if not os.path.exists(os.path.join(path, "manifest.json")):
        size, sessions, projects = SIZES[name]
        say(f"making a history of {size}")
        generator = os.path.join(REPO, "tools", "gencorpus", "gencorpus.py")
        command = [sys.executable, generator, "--out", path, "--size", size]
        command += ["--sessions", str(sessions), "--projects", str(projects)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        let_go(path)
    return path


def let_go(corpus):
    """Pushes files that were just made out of memory: read back, they lie there as those of months ago do, in larger pieces."""
    for folder, _, names in os.walk(corpus):
        for name in names:
            file = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.fsync(file)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def log_bytes(corpus):
    walk = os.walk(os.path.join(corpus, "projects"))
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in walk for f in fs if f.endswith(".jsonl"))


def single_log(size):
    """One session of turns with a tool call each, in one chain, made once."""
    root = os.path.join(OUT, f"log-{size}")
    session = "5e551011-0000-4000-8000-000000000000"
    path = os.path.join(root, "projects", "-home-dev-work-long", session + ".jsonl")
    if os.path.exists(path):
        return path
    say(f"making a log of {size:,} bytes")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    prose = "The parser reads a line, finds its end and hands it on; nothing is copied.\\n" * 12
    output = "src/store/log.rs:120: let mut sink = Sink::default();\\n" * 70
    usage = '{"input_tokens":4,"cache_creation_input_tokens":300,"cache_read_input_tokens":9000,"output_tokens":250}'
    head = '"isSidechain":false,"userType":"external","cwd":"/home/dev/work/long","sessionId":"%s","version":"2.1.0"' % session

    def answer(block, stop):
        return ('"type":"assistant","requestId":"req_%(n)d","message":{"model":"claude-sonnet-4-5-20250929","id":"msg_%(n)d",'
                f'"type":"message","role":"assistant","content":[{block}],"stop_reason":"{stop}","usage":{usage}}}')

    turn = [
        '"type":"user","message":{"role":"user","content":"Question %(n)d: where is the line read?"}',
        answer('{"type":"tool_use","id":"toolu_%(n)d","name":"Grep","input":{"pattern":"Sink"}}', "tool_use"),
        '"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_%(c)d","type":"tool_result","content":"'
        + output + '"}]},"toolUseResult":{"stdout":"' + output + '","stderr":""}',
        answer('{"type":"text","text":"' + prose + '"}', "end_turn"),
    ]
    start = 1767225600  # 2026-01-01
    parent, written, n = "null", 0, 0
    with open(path + ".part", "w", encoding="utf-8") as file:
        while written < size:
            for body in turn:
                n += 1
                uuid = f'"{n * 2654435761 % 2**32:08x}-0000-4000-8000-{n:012x}"'
                stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(start + n))
                body = body % {"n": n, "c": n - 1}
                written += file.write(f'{{"parentUuid":{parent},{head},{body},"uuid":{uuid},"timestamp":"{stamp}"}}\n')
                parent = uuid
    os.rename(path + ".part", path)
    return path


def table(report):
    lines = [f"{'what':<58} {'target':>14} {'measured':>12}  {'unit':<9} {'':<7} note"]
    for row in report["rows"]:
        value = row["measured"]
        shown = f"{value:,.2f}" if isinstance(value, float) else str(value)
        verdict = {True: "met", False: "MISSED", None: ""}[row["met"]]
        lines.append(f"{row['what'][:58]:<58} {row['target'] or '':>14} {shown:>12}  {row['unit']:<9} {verdict:<7} {row['note']}".rstrip())
    return "\n".join(lines)


def say(what):
    print("bench: " + what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, subprocess.CalledProcessError, Unable) as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(2)
