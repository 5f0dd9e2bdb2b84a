#!/usr/bin/env python3
"""Measures `annals cost` beside the tools that people use today, in one run, as ratios. See README.md beside this file.

    bench/cost.py                        histories of 100 MB and 1 GB (made once, in bench/out)
    bench/cost.py --sizes 100M,1G,4G     the same, and 4 GB
    bench/cost.py --json                 one JSON document instead of the tables
    bench/cost.py --peers-only           without annals

Installs ccusage (the native program, from npm) and duckdb (from PyPI) into bench/out/peers; what cannot be installed is
left out, and said. Variants take turns. Every table is checked against what tools/gencorpus knows of the history.
Exit code: 0 all targets met and all of our totals right, 1 something missed, 2 could not be run.
"""
import argparse
import json
import os
import platform
import shutil
import subprocess
import sys

import run
from run import ANNALS, HERE, OUT, REPO, Runs, child, say

PEERS = os.path.join(OUT, "peers")
SCRATCH = os.path.join(OUT, "cost")
GENCORPUS = os.path.join(REPO, "tools", "gencorpus")
GROWN_SESSIONS = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100M,1G", type=sizes, help="of the histories: " + ", ".join(run.SIZES) + " (100M,1G)")
    parser.add_argument("--repeats", type=int, default=3, help="how often each variant runs (3)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--annals", default=ANNALS, metavar="PROGRAM", help="the program to measure, taken as it is")
    parser.add_argument("--no-build", action="store_true", help="take the release binary as it is")
    parser.add_argument("--peers-only", action="store_true", help="leave annals out")
    parser.add_argument("--check", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.check:
        print(json.dumps(differences(*args.check)))
        return 0
    if args.repeats < 1:
        parser.error("--repeats must be at least 1")
    if not args.no_build and not args.peers_only and args.annals == ANNALS:
        say("building")
        cargo = ["cargo", "build", "--release", "--locked", "-p", "annals-cli"]
        subprocess.run(cargo, cwd=REPO, check=True, stdout=sys.stderr)
    shutil.rmtree(SCRATCH, ignore_errors=True)
    os.makedirs(os.path.join(SCRATCH, "home"))
    peers = {"ccusage": install_ccusage(), "duckdb": install_duckdb()}
    benches = [Bench(name, args, peers) for name in args.sizes]
    try:
        for turn in range(args.repeats):
            for bench in benches:
                say(f"turn {turn + 1} of {args.repeats}, {bench.name}")
                bench.turn(last=turn == args.repeats - 1)
        report = judge(benches, args, peers)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
    print(json.dumps(report, indent=1) if args.json else tables(report))
    return 0 if all(row["met"] is not False for row in report["rows"]) else 1


def sizes(text):
    """The names of the histories, smallest first."""
    names = [name.strip().lower() for name in text.split(",")]
    unknown = [name for name in names if name not in run.SIZES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(run.SIZES)}")
    return [name for name in run.SIZES if name in names]


# The peers ---------------------------------------------------------------------------------------------------------

def install_ccusage():
    """Path and version of the native program, and of the script that npm users start; None if it cannot be had."""
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine().lower())
    package = f"@ccusage/ccusage-{platform.system().lower()}-{machine}"
    modules = os.path.join(PEERS, "npm", "node_modules")
    program = os.path.join(modules, package, "bin", "ccusage")
    npm = ["npm", "install", "--prefix", os.path.join(PEERS, "npm"), "--no-audit", "--no-fund", "--loglevel=error"]

    def version():
        with open(os.path.join(modules, package, "package.json"), encoding="utf-8") as file:
            return json.load(file)["version"]

    # By its own name: where a release lacks the program for this machine, the wrapper installs without it and says nothing.
    if not os.path.exists(program) and not installed("ccusage", [*npm, package + "@20"]):
        return None
    os.chmod(program, 0o755)
    script = os.path.join(modules, "ccusage", "src", "cli.js")
    if not os.path.exists(script):
        installed("ccusage's script", [*npm, "ccusage@" + version()])
    return {"program": program, "script": script if os.path.exists(script) else None, "version": version()}


def install_duckdb():
    """Where Python finds it; None if it cannot be had."""
    folder = os.path.join(PEERS, "python")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", folder, "duckdb"]
    if not os.path.isdir(os.path.join(folder, "duckdb")) and not installed("duckdb", pip):
        return None
    names = [name for name in os.listdir(folder) if name.startswith("duckdb-") and name.endswith(".dist-info")]
    return {"folder": folder, "version": names[0][len("duckdb-"):-len(".dist-info")] if names else "?"}


def installed(what, command):
    """Whether the command went well. If not, the run goes on without."""
    say(f"installing {what}")
    os.makedirs(PEERS, exist_ok=True)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        say(f"SKIPPED {what}: {error}")
        return False
    if done.returncode != 0:
        say(f"SKIPPED {what}: {' '.join(command)} ended with {done.returncode}:\n{done.stdout.strip()}")
    return done.returncode == 0


# One history ---------------------------------------------------------------------------------------------------------

class Bench:
    """All variants on one history."""

    def __init__(self, name, args, peers):
        self.name, self.annals, self.peers = name, None if args.peers_only else args.annals, peers
        self.corpus = run.history(name)
        with open(os.path.join(self.corpus, "manifest.json"), encoding="utf-8") as file:
            known = '"by_day"' in file.read()
        if not known:
            say("counting a history that was made before its days were")
            subprocess.run([sys.executable, "-B", os.path.join(GENCORPUS, "truth.py"), self.corpus], check=True, stdout=sys.stderr)
        self.bytes = run.log_bytes(self.corpus)
        self.runs, self.answers = {}, {}
        self.ask = self.path("ask.json")
        self.grown = self.path("grown")
        self.grows = 0
        with open(self.ask, "w", encoding="utf-8") as file:
            json.dump(question(self.corpus), file)

    def path(self, name):
        return os.path.join(SCRATCH, f"{self.name}-{name}")

    def turn(self, last):
        """Every variant once."""
        warm(self.corpus)
        if self.annals:
            state = self.path("state")
            shutil.rmtree(state, ignore_errors=True)
            self.measure("annals, first run", "annals", self.cost_command(self.corpus), state=state)
            self.measure("annals, second run", "annals", self.cost_command(self.corpus), state=state)
            self.measure("annals statusline", None, [self.annals, "statusline", "--root", "claude-code:" + self.corpus],
                         state=state, stdin=self.ask)
        if self.peers["ccusage"]:
            # Of one agent, without the network, and in the zone of the manifest.
            daily = ["claude", "daily", "--json", "--offline", "--timezone", "UTC"]
            program, script = self.peers["ccusage"]["program"], self.peers["ccusage"]["script"]
            self.measure("ccusage", "ccusage", [program, *daily])
            if script:
                self.measure("ccusage, through npm's script", "ccusage", ["node", script, *daily])
            # It keeps its line for a second; this is what one costs after that.
            self.measure("ccusage statusline", None, [program, "statusline", "--offline", "--no-cache"], stdin=self.ask)
        if self.peers["duckdb"]:
            self.measure("duckdb", "duckdb", [sys.executable, "-B", os.path.join(HERE, "cost_duckdb.py"), self.corpus])
        if self.annals:
            self.grow(last)

    def grow(self, last):
        """A second run on a copy, and one after some of its sessions went on."""
        state, command = self.path("state-grown"), self.cost_command(self.grown)
        if not os.path.exists(self.grown):
            copy(self.corpus, self.grown)
            # A file is known by its number as well, so the copy's state is the copy's own.
            child(command, os.devnull, env=self.environment(self.grown, state))
        warm(self.grown)
        self.measure("annals, unchanged copy", None, command, state=state, corpus=self.grown)
        self.grows += 1
        more = [sys.executable, "-B", os.path.join(GENCORPUS, "gencorpus.py"), "--out", self.grown, "--grow", str(GROWN_SESSIONS),
                "--grow-seed", str(self.grows)] + ([] if last else ["--no-truth"])
        subprocess.run(more, check=True, stdout=subprocess.DEVNULL)
        self.measure("annals, after growth", "annals" if last else None, command, state=state, corpus=self.grown)

    def cost_command(self, corpus):
        return [self.annals, "cost", "--json", "--by", "day", "--root", "claude-code:" + corpus]

    def environment(self, corpus, state):
        """The same for all: an empty home, so that nobody finds more than the history or a configuration."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "CLAUDE", "ANNALS", "CCUSAGE"))}
        return {**kept, "HOME": os.path.join(SCRATCH, "home"), "TMPDIR": SCRATCH, "TZ": "UTC", "CLAUDE_CONFIG_DIR": corpus,
                "ANNALS_STATE_DIR": state, "PYTHONPATH": (self.peers["duckdb"] or {}).get("folder", "")}

    def measure(self, variant, kind, command, state="", stdin=os.devnull, corpus=None):
        """Runs it, and compares its table with the manifest."""
        corpus, out = corpus or self.corpus, self.path("out.json")
        self.runs.setdefault(variant, []).append(child(command, out, stdin, self.environment(corpus, state or self.path("unused"))))
        if kind is None:
            return
        # In a process of its own: the memory of this one counts as its children's.
        check = [sys.executable, "-B", os.path.abspath(__file__), "--check", kind, os.path.join(corpus, "manifest.json"), out]
        found = json.loads(subprocess.run(check, check=True, stdout=subprocess.PIPE).stdout)
        self.answers.setdefault(variant, []).append(found)

    def found(self):
        return {variant: Runs(runs) for variant, runs in self.runs.items()}


def question(corpus):
    """What an agent's status bar tells the programs that draw it, about the largest session."""
    walk = os.walk(os.path.join(corpus, "projects"))
    files = (os.path.join(folder, name) for folder, _, names in walk for name in names)
    path = max((path for path in files if not os.path.basename(path).startswith("agent-")), key=os.path.getsize)
    place = "/home/dev/work"
    return {"hook_event_name": "Status", "session_id": os.path.basename(path)[:-len(".jsonl")], "transcript_path": path, "cwd": place,
            "model": {"id": "claude-sonnet-4-5-20250929", "display_name": "Sonnet 4.5"},
            "workspace": {"current_dir": place, "project_dir": place}, "version": "2.1.0"}


def warm(corpus):
    """Brings the files back to memory, so that no variant pays for what others pushed out."""
    read = 'find "$1" -name "*.jsonl" -print0 | xargs -0 cat >/dev/null'
    subprocess.run(["sh", "-c", read, "sh", os.path.join(corpus, "projects")], check=True)


def copy(source, target):
    """A copy with the same times, without copying where the file system can."""
    clone = subprocess.run(["cp", "-a", "--reflink=auto", source, target], stderr=subprocess.DEVNULL)
    if clone.returncode != 0:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)


# Right or wrong ------------------------------------------------------------------------------------------------------

def differences(kind, manifest, out):
    """Which totals and which days of a printed table are not those of the manifest, and what it says that all cost."""
    with open(manifest, encoding="utf-8") as file:
        days = json.load(file)["by_day"]
    with open(out, encoding="utf-8") as file:
        printed = json.load(file)
    table, cost = {"annals": of_annals, "ccusage": of_ccusage, "duckdb": of_duckdb}[kind](printed)
    expected = {day: merged(models.values()) for day, models in days.items()}
    names = sorted(set().union(*table.values())) if table else []
    total, should = merged(table.values()), merged(expected.values())
    wrong = [f"{name} {total[name]:,} instead of {should[name]:,}" for name in names if total[name] != should[name]]
    days = [day for day in sorted({*expected, *table})
             if {name: table.get(day, {}).get(name, 0) for name in names} != {name: expected.get(day, {}).get(name, 0) for name in names}]
    return {"wrong": wrong if table else ["the table is empty"], "cost": cost,
            "days": f"{len(days)} of {len(expected)} days differ, the first is {days[0]}" if days else None}


def merged(rows):
    """The sum of rows. Not all tools tell the two kinds of cache writes apart."""
    total = {}
    for row in rows:
        row = {**row, "cache_write": row["cache_5m"] + row["cache_1h"]} if "cache_5m" in row else row
        for name, value in row.items():
            total[name] = total.get(name, 0) + value
    return total


def of_annals(printed):
    names = {"input": "input", "output": "output", "cache_5m": "cache_write_5m", "cache_1h": "cache_write_1h",
             "cache_read": "cache_read", "requests": "requests"}
    return {row["key"]: merged([{ours: row[theirs] for ours, theirs in names.items()}]) for row in printed["rows"]}, \
        printed["total"]["cost_usd"]


def of_ccusage(printed):
    names = {"input": "inputTokens", "output": "outputTokens", "cache_write": "cacheCreationTokens", "cache_read": "cacheReadTokens"}
    return {row["date"]: {ours: row[theirs] for ours, theirs in names.items()} for row in printed["daily"]}, \
        printed["totals"]["totalCost"]


def of_duckdb(printed):
    table = {}
    for row in printed["rows"]:
        counts = {name: value for name, value in row.items() if name not in ("day", "model")}
        table.setdefault(row["day"], []).append(counts)
    return {day: merged(rows) for day, rows in table.items()}, None


# The verdict ---------------------------------------------------------------------------------------------------------

def judge(benches, args, peers):
    rows = []

    def row(what, measured, unit, target=None, met=None, note=""):
        rows.append({"what": what, "target": target, "measured": measured, "unit": unit, "met": met, "note": note})

    # The targets are those of a gigabyte and more; a smaller history shows the way.
    judged = [bench for bench in benches if bench.bytes > 9e8] or benches[-1:]
    for bench in benches:
        at, found = f"{bench.name.upper()}: ", bench.found()

        def against(what, measured, unit, target, met, note=""):
            row(at + what, measured, unit, *((target, met) if bench in judged else (None, None)), note)

        def times(variant, target):
            if "ccusage" not in found:
                return row(at + f"{variant}, CPU / ccusage's", "-", "", f"≥ {target}", None, "not judged: no ccusage")
            ratio = found["ccusage"].cpu / found[variant].cpu
            against(f"{variant}, times less CPU than ccusage", ratio, "×", f"≥ {target}", ratio >= target,
                    f"{found[variant].cpu * 1e3:,.1f} ms, median {found[variant].cpu_median * 1e3:,.1f}")

        if bench.annals:
            first = found["annals, first run"]
            times("annals, first run", 4)
            against("annals, first run, peak memory", first.rss, "MB", "< 60", first.rss < 60)
            times("annals, second run", 50)
            ratio = found["annals, after growth"].cpu / found["annals, unchanged copy"].cpu
            against(f"annals, {GROWN_SESSIONS} sessions grown / unchanged", ratio, "×", "≤ 2", ratio <= 2,
                    f"{found['annals, unchanged copy'].cpu * 1e3:.1f} to {found['annals, after growth'].cpu * 1e3:.1f} ms")
            status = found["annals statusline"].cpu * 1e3
            against("annals statusline", status, "ms CPU", "< 10", status < 10, f"median {found['annals statusline'].cpu_median * 1e3:.1f}")
        for variant, answers in bench.answers.items():
            wrong = [complaint for answer in answers for complaint in answer["wrong"]]
            days = [answer["days"] for answer in answers if answer["days"]]
            cost = answers[-1]["cost"]
            notes = [*dict.fromkeys([*wrong, *days]), "no prices" if cost is None else f"says ${cost}"]
            verdict = "wrong" if wrong else "right" if not days else "sum right"
            ours = variant.startswith("annals")
            row(at + variant + ", its table", verdict, "", "right" if ours else None, verdict == "right" if ours else None, "; ".join(notes))
    for small, large in zip(benches, benches[1:]):
        names = ["annals, first run"] if not args.peers_only else []
        for variant in names + [name for name in ("ccusage", "duckdb") if peers[name]]:
            ratio = (large.found()[variant].cpu / large.bytes) / (small.found()[variant].cpu / small.bytes)
            ours = variant.startswith("annals")
            row(f"{variant}, CPU per byte, {large.name.upper()} / {small.name.upper()}", ratio, "×",
                "≤ 1.3" if ours else None, ratio <= 1.3 if ours else None)
    return {"repeats": args.repeats, "peers": {name: peer and peer["version"] for name, peer in peers.items()}, "rows": rows,
            "histories": [{"size": bench.name, "bytes": bench.bytes,
                           "runs": {variant: runs.summary() for variant, runs in bench.found().items()}} for bench in benches]}


def tables(report):
    lines = [", ".join(f"{name} {version}" if version else f"{name} SKIPPED" for name, version in report["peers"].items())]
    for history in report["histories"]:
        lines += ["", f"{history['size'].upper() + ', ' + format(history['bytes'], ',') + ' bytes':<34} {'CPU s':>9} {'median':>9} {'wall s':>9}"
                      f" {'peak MB':>9} {'GB/CPU-s':>9}  CPU / ccusage's"]
        base = history["runs"].get("ccusage", {}).get("cpu_s")
        for variant, found in history["runs"].items():
            ratio = f"{found['cpu_s'] / base:.4f}" if base else "-"
            lines.append(f"{variant:<34} {found['cpu_s']:>9.3f} {found['cpu_median_s']:>9.3f} {found['wall_s']:>9.3f} {found['rss_mb']:>9.0f}"
                         f" {history['bytes'] / 1e9 / max(found['cpu_s'], 1e-6):>9.2f}  {ratio}")
    return "\n".join(lines) + "\n\n" + run.table(report)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, subprocess.CalledProcessError, run.Unable) as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(2)
