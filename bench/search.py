#!/usr/bin/env python3
"""Measures `annals search` and its index beside ripgrep, in one run, as ratios. See README.md beside this file.

    bench/search.py                 a history of 1 GB (made once, in bench/out)
    bench/search.py --size 100M     another one
    bench/search.py --json          one JSON document instead of the table

Installs ripgrep (from PyPI) into bench/out/peers; without it the rows that need it are left out, and said. Variants
take turns. Totals are checked against what tools/gencorpus knows of the history, and every answer against `--no-index`.
Exit code: 0 all targets met and all totals right, 1 something missed, 2 could not be run.
"""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys

import cost
import run
from run import ANNALS, OUT, REPO, Runs, child, say

PEERS = os.path.join(OUT, "peers", "ripgrep")
SCRATCH = os.path.join(OUT, "search")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="1g", type=str.lower, choices=list(run.SIZES), help="of the history (1g)")
    parser.add_argument("--repeats", type=int, default=3, help="how often each variant runs (3)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--annals", default=ANNALS, metavar="PROGRAM", help="the program to measure, taken as it is")
    parser.add_argument("--no-build", action="store_true", help="take the release binary as it is")
    args = parser.parse_args()
    if not args.no_build and args.annals == ANNALS:
        say("building")
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "annals-cli"], cwd=REPO, check=True, stdout=sys.stderr)
    shutil.rmtree(SCRATCH, ignore_errors=True)
    os.makedirs(os.path.join(SCRATCH, "home"))
    try:
        report = Bench(args).report()
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
    print(json.dumps(report, indent=1) if args.json else table(report))
    return 0 if all(row["met"] is not False for row in report["rows"]) else 1


def install_ripgrep():
    """Path of the program; None if it cannot be had."""
    program = os.path.join(PEERS, "bin", "rg")
    if not os.path.exists(program):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", PEERS, "ripgrep"]
        done = subprocess.run(pip, stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
        if done.returncode or not os.path.exists(program):
            say(f"ripgrep cannot be had, so its rows are left out: {done.stderr.strip()[-200:]}")
            return None
    return program


class Bench:
    def __init__(self, args):
        self.args = args
        self.corpus = run.history(args.size)
        with open(os.path.join(self.corpus, "manifest.json"), encoding="utf-8") as file:
            self.manifest = json.load(file)
        self.rg = install_ripgrep()
        self.runs, self.totals, self.faults = {}, {}, []
        self.text = text_bytes(self.corpus)

    def env(self, state):
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "CLAUDE", "ANNALS"))}
        return {**kept, "HOME": os.path.join(SCRATCH, "home"), "TZ": "UTC", "ANNALS_STATE_DIR": os.path.join(SCRATCH, state)}

    def measure(self, variant, *command, state="state", corpus=None):
        out = os.path.join(SCRATCH, "out")
        root = ["--root", "claude-code:" + (corpus or self.corpus)]
        self.runs.setdefault(variant, []).append(child([self.args.annals, *command, *root], out, env=self.env(state)))
        with open(out, encoding="utf-8") as file:
            return file.read()

    def search(self, variant, *query, state="state", corpus=None):
        """Runs a search; its answer must be the same every time and by every way."""
        found = json.loads(self.measure(variant, "search", "--json", *query, state=state, corpus=corpus))
        answer = {"total": found["total"], "hits": [(hit["file"], hit["line"]) for hit in found["hits"]]}
        key = " ".join(part for part in query if part != "--no-index")
        if corpus is None and self.totals.setdefault(key, answer) != answer:
            self.faults.append(f"{variant}: {answer['total']}, where others say {self.totals[key]['total']}")
        return answer["total"]

    def turn(self, first):
        rare, phrase = self.manifest["needles"]["rare"], f'"{self.manifest["needles"]["phrase"]}"'
        filters = ["role:user", "-tool:Bash", "after:2026-01-01"]
        cost.warm(self.corpus)
        if self.rg:
            files = ["--no-ignore", "--hidden", "-g", "*.jsonl"]
            self.runs.setdefault("ripgrep", []).append(child([self.rg, "-c", *files, rare, self.corpus], os.devnull))
        self.search("without an index, rare word", "--no-index", rare)
        if first:
            self.measure("build", "index", "build", "--json", state="built")
            shutil.copytree(os.path.join(SCRATCH, "built"), os.path.join(SCRATCH, "state"))
        self.search("rare word", rare)
        self.search("phrase", phrase)
        self.search("phrase and three filters", " ".join([phrase, *filters]))
        self.search("phrase and three filters, without an index", "--no-index", " ".join([phrase, *filters]))

    def report(self):
        for turn in range(self.args.repeats):
            say(f"turn {turn + 1} of {self.args.repeats}")
            self.turn(turn == 0)
        # The words alone: what is left of the database when the other parts are not built.
        self.search("first search, and learning", self.manifest["needles"]["rare"], state="words")
        words = sum(os.path.getsize(path) for path in glob.glob(os.path.join(SCRATCH, "words", "index-*")))
        self.grown()
        runs = {name: Runs(found) for name, found in self.runs.items()}
        ms = {name: run.cpu * 1e3 for name, run in runs.items()}
        build = runs["first search, and learning"].cpu - runs["without an index, rare word"].cpu
        rows = []

        def row(name, target, value, met, note=""):
            rows.append({"row": name, "target": target, "measured": value, "met": met, "note": note})

        if self.rg:
            ratio = ms["without an index, rare word"] / ms["ripgrep"]
            row("rare word without an index / ripgrep", "≤ 3", round(ratio, 2), ratio <= 3, f"{ms['ripgrep']:.0f} ms")
        for name in ("rare word", "phrase", "phrase and three filters"):
            row(f"{name}, CPU ms", "< 20", round(ms[name], 1), ms[name] < 20)
        speed = self.text / 1e6 / build
        row("learning, MB of text per CPU second", "≥ 25", round(speed, 1), speed >= 25, f"{runs['first search, and learning'].rss:.0f} MB of memory")
        share = words / self.text
        row("words / text, bytes", "≤ 0.6", round(share, 3), share <= 0.6, f"{words / 1e6:.0f} of {self.text / 1e6:.0f} MB")
        again, grown = ms["unchanged"], ms["after 5 grew"]
        row("again, nothing changed, CPU ms", "< 60", round(again, 1), again < 60)
        row("after 5 sessions went on, learning included, CPU ms", "< 120", round(grown, 1), grown < 120)
        right = self.totals[self.manifest["needles"]["rare"]]["total"] == self.manifest["rare_lines"]
        phrase = f'"{self.manifest["needles"]["phrase"]}"'
        right = right and self.totals[phrase]["total"] == self.manifest["phrase_lines"] and not self.faults
        row("totals equal the manifest and each other", "equal", "equal" if right else "; ".join(self.faults) or "not equal", right)
        return {"rows": rows, "runs": {name: found.summary() for name, found in runs.items()}}

    def grown(self):
        """Searches on a copy that is known, before and after some of its sessions went on."""
        corpus = os.path.join(SCRATCH, "grown")
        cost.copy(self.corpus, corpus)
        rare = self.manifest["needles"]["rare"]
        self.search("first on the copy", rare, state="grown-state", corpus=corpus)
        gencorpus = os.path.join(REPO, "tools", "gencorpus", "gencorpus.py")
        for turn in range(self.args.repeats):
            self.search("unchanged", rare, state="grown-state", corpus=corpus)
            more = [sys.executable, "-B", gencorpus, "--out", corpus, "--grow", "5", "--grow-seed", str(turn), "--no-truth"]
            subprocess.run(more, check=True, stdout=subprocess.DEVNULL)
            self.search("after 5 grew", rare, state="grown-state", corpus=corpus)


def text_bytes(corpus):
    """The bytes of what people, models and tools said, and of what the client keeps of tools' results; counted once."""
    cache = os.path.join(OUT, f"text-{os.path.basename(corpus)}.json")
    if os.path.exists(cache):
        with open(cache, encoding="utf-8") as file:
            return json.load(file)
    say("counting the text of the history")
    total = 0
    for path in glob.glob(os.path.join(corpus, "**", "*.jsonl"), recursive=True):
        with open(path, "rb") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                message = record.get("message")
                said = [record.get("summary"), record.get("toolUseResult"), record.get("content")]
                said.append(message.get("content") if isinstance(message, dict) else None)
                total += sum(map(length, said))
    with open(cache, "w", encoding="utf-8") as file:
        json.dump(total, file)
    return total


def length(value):
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, list):
        return sum(map(length, value))
    if isinstance(value, dict):
        return sum(length(inner) for key, inner in value.items() if key not in ("type", "id", "tool_use_id", "signature"))
    return 0


def table(report):
    width = max(len(row["row"]) for row in report["rows"])
    verdict = {True: "met", False: "MISSED", None: ""}
    return "\n".join(f"{row['row']:{width}}  {row['target']:>7}  {row['measured']!s:>10}  {verdict[row['met']]:6}  {row['note']}" for row in report["rows"])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except run.Unable as unable:
        say(unable)
        sys.exit(2)
