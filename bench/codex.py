#!/usr/bin/env python3
"""Measures lists and costs of Codex rollouts beside ccusage, in one run. See README.md beside this file.

    bench/codex.py                  a history of 1 GB (made once, in bench/out)
    bench/codex.py --size 100M --repeats 5 --annals PROGRAM

Variants take turns; the table has the median of CPU time. Token totals are checked against the manifest of
tools/gencorpus/codex.py. Installs ccusage from npm.
Exit codes: 0 all targets met and all totals right, 1 something missed, 2 could not run.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from cost import install_ccusage
from run import ANNALS, OUT, REPO, child, say


def history(size):
    """Generates the history once, and returns its folder."""
    folder = os.path.join(OUT, f"codex-{size.lower()}")
    if not os.path.exists(os.path.join(folder, "manifest.json")):
        shutil.rmtree(folder, ignore_errors=True)
        say(f"generating {folder}")
        script = os.path.join(REPO, "tools", "gencorpus", "codex.py")
        subprocess.run([sys.executable, "-B", script, "--out", folder, "--size", size], check=True, stdout=sys.stderr)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="1G")
    parser.add_argument("--corpus", help="a folder that tools/gencorpus/codex.py wrote")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--annals", default=ANNALS, metavar="PROGRAM")
    args = parser.parse_args()
    corpus = os.path.realpath(args.corpus or history(args.size))
    peer = install_ccusage()
    with open(os.path.join(corpus, "manifest.json"), encoding="utf-8") as file:
        truth = json.load(file)
    runs = {}
    with tempfile.TemporaryDirectory() as scratch:
        env = {"PATH": os.environ["PATH"], "HOME": scratch, "TZ": "UTC", "CODEX_HOME": corpus,
               "ANNALS_STATE_DIR": os.path.join(scratch, "state")}
        annals = [args.annals, "--root", f"codex:{corpus}"]
        variants = {"sessions, first": [*annals, "--no-index", "sessions", "--json"],
                    "cost, first": [*annals, "--no-index", "cost", "--json", "--by", "model"],
                    "cost, again": [*annals, "cost", "--json", "--by", "model"]}
        if peer:
            variants["ccusage codex"] = [peer["program"], "codex", "daily", "--offline", "--json"]
        printed = {}
        child(variants["cost, again"], os.path.join(scratch, "out"), env=env)
        for _ in range(args.repeats):
            for name, command in variants.items():
                out = os.path.join(scratch, "out")
                runs.setdefault(name, []).append(child(command, out, env=env))
                with open(out, encoding="utf-8") as file:
                    printed[name] = json.load(file)
    cpu = {name: statistics.median(one[0] for one in ones) for name, ones in runs.items()}
    peak = {name: max(one[2] for one in ones) for name, ones in runs.items()}
    rows = [("sessions, GB per CPU second", truth["bytes"] / 1e9 / cpu["sessions, first"], ">=", 1),
            ("sessions, peak MB", peak["sessions, first"], "<", 100),
            ("cost, peak MB", peak["cost, first"], "<", 100)]
    if peer:
        rows.append(("cost, first run, times less CPU than ccusage", cpu["ccusage codex"] / cpu["cost, first"], ">=", 4))
        rows.append(("cost, next run, times less CPU than ccusage", cpu["ccusage codex"] / cpu["cost, again"], ">=", 50))
    missed = False
    print(f"{truth['threads']} rollouts, {truth['bytes'] / 1e6:.0f} MB, {truth['lines']} lines; median of {args.repeats}")
    for name, found, sign, target in rows:
        met = found >= target if sign == ">=" else found < target
        missed |= not met
        print(f"  {name:46} {found:8.2f}  {sign} {target:<4} {'met' if met else 'MISSED'}")
    for name in cpu:
        print(f"  {name:46} {cpu[name] * 1000:8.0f} ms of CPU, {peak[name]:.0f} MB")
    return 1 if missed | wrong(truth, printed) else 0


def wrong(truth, printed):
    """Compares all totals with the manifest."""
    found = False
    for name in ("cost, first", "cost, again"):
        for row in printed[name]["rows"]:
            tokens = truth["tokens"][row["model"]]
            ours = (row["input"] + row["cache_read"], row["cache_read"], row["output"])
            right = (tokens["input_tokens"], tokens["cached_input_tokens"], tokens["output_tokens"])
            if ours != right:
                print(f"  WRONG: {name}, {row['model']}: {ours} instead of {right}")
                found = True
    if "ccusage codex" in printed:
        theirs = printed["ccusage codex"]["totals"]["totalTokens"]
        right = sum(tokens["total_tokens"] for tokens in truth["tokens"].values())
        print(f"  ccusage's total of tokens: {'equal' if theirs == right else f'{theirs} instead of {right}'}")
    return found


if __name__ == "__main__":
    sys.exit(main())
