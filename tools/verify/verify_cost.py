#!/usr/bin/env python3
"""Compares every figure of `annals cost` with a slow ledger and exact decimal arithmetic.

    verify_cost.py DIR…              claude-code histories: tokens, requests and dollars by model,
                                     day, session, agent and git branch
    verify_cost.py --grow 5 DIR      and again, with the index, after five sessions of a copy grew

The ledger is tools/gencorpus/truth.py, which reads only the files; this script reads the prices
from the list. Each report is made three times: with a new index, with an existing one, and without.
Models that this script does not find in the list (it only strips a date) are compared by tokens
alone. Exit codes: 0 all equal, 1 something differs, 2 could not run.
"""
import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
GENCORPUS = HERE.parent / "gencorpus"
sys.path[:0] = [str(HERE), str(GENCORPUS)]
import truth  # noqa: E402
from annals_cli import REPOSITORY, Annals, AnnalsError, find_annals  # noqa: E402

PRICES = REPOSITORY / "crates" / "annals" / "data" / "prices.csv"
# Names of the counts in JSON, and in truth.py.
COUNTS = {"input": "input", "output": "output", "cache_write_5m": "cache_5m", "cache_write_1h": "cache_1h", "cache_read": "cache_read"}
DIMENSIONS = ("model", "day", "session", "agent-id", "git-branch")
PICO = Decimal("1e-12")
SHOWN = 20


class Prices:
    """The price list, parsed independently."""

    def __init__(self, path):
        self.rows = {}
        with open(path, encoding="utf-8", newline="") as file:
            lines = (line for line in file if line.strip() and not line.startswith("#"))
            for row in csv.DictReader(lines):
                self.rows.setdefault(row["model"], []).append(row)

    def of(self, name):
        """Returns the rows of a model; none if its name is not in the list, with or without its
        date."""
        for spelled in (name, re.sub(r"-20\d{6}$", "", name or "")):
            rows = self.rows.get(spelled)
            if rows and rows[0]["same_as"]:
                rows = self.rows.get(rows[0]["same_as"])
            if rows:
                return rows
        return []

    def cost(self, response):
        """Returns the exact cost in dollars, or None if it is unknown."""
        counts, row, told = response["counts"], self.row(response), response["price"]
        # The recorded cost counts if there are no tokens.
        if row is None or (told is not None and not any(counts.values())):
            return None if told is None else Decimal(told).quantize(PICO, ROUND_HALF_UP)
        total = Decimal(0)
        for name, ours in COUNTS.items():
            if counts[ours]:
                if not row[name]:
                    return None
                total += counts[ours] * Decimal(row[name]) / 10**6
        if counts["web_searches"]:
            total += counts["web_searches"] * Decimal(row["web_search"] or 0) / 1000
        if response["terms"][1] == "us" and row["us_percent"]:
            total = total * Decimal(row["us_percent"]) / 100
        return total

    def row(self, response):
        """Returns the row for a response's pace, date and context size."""
        every = self.of(response["model"])
        rows = [row for row in every if (row["pace"] or "standard") == response["terms"][0]]
        rows = rows or [row for row in every if not row["pace"]]
        day = response["time"].date().isoformat() if response["time"] else "9999"
        since = max((row["from"] for row in rows if row["from"] <= day), default=None)
        context = sum(response["counts"][name] for name in ("input", "cache_5m", "cache_1h", "cache_read"))
        rows = [row for row in rows if row["from"] == since and context > int(row["above"] or -1)]
        return max(rows, key=lambda row: int(row["above"] or -1), default=None)


class Sums:
    """The expected values of one row of a report."""

    def __init__(self):
        self.counts = dict.fromkeys((*COUNTS, "requests", "web_searches"), 0)
        self.cost, self.unknown = Decimal(0), 0

    def add(self, response, cost):
        for name, ours in COUNTS.items():
            self.counts[name] += response["counts"][ours]
        self.counts["web_searches"] += response["counts"]["web_searches"]
        self.counts["requests"] += 1
        if cost is None:
            self.unknown += 1
        else:
            self.cost += cost

    def compare(self, row, report):
        """Compares them with a row of a report."""
        for name, value in self.counts.items():
            # Rows without searches omit their count.
            report.figure(name, value, row.get(name, 0 if name == "web_searches" else None))
        if self.unknown:
            report.left_out += 1
            return
        told = row.get("cost_usd")
        report.figure("cost_usd", self.cost, None if told is None else Decimal(told))
        report.figure("unpriced", 0, row.get("unpriced", 0))


class Report:
    """The number of compared figures, and the differences."""

    def __init__(self):
        self.figures, self.left_out, self.differences, self.where = 0, 0, [], ""

    def figure(self, name, expected, found):
        self.figures += 1
        if expected != found:
            self.differences.append({"where": self.where, "figure": name, "expected": str(expected), "found": str(found)})


def expected(root, prices):
    """Returns the expected sums by dimension and key, and the expected total."""
    tables, total = {dimension: {} for dimension in DIMENSIONS}, Sums()
    for response in truth.responses(root):
        cost = prices.cost(response)
        keys = (response["model"] or "unknown", truth.day(response), response["session"], response["agent"] or "main",
                response["git_branch"] or "unknown")
        for dimension, key in zip(DIMENSIONS, keys):
            tables[dimension].setdefault(key, Sums()).add(response, cost)
        total.add(response, cost)
    return tables, total


def verify(annals, prices, report, when, variants):
    """Compares all reports of one root, made in several ways."""
    tables, total = expected(annals.root, prices)
    for how, flags in variants:
        for dimension, table in tables.items():
            printed = annals.json("cost", "--by", dimension, "--zone", "UTC", *flags)
            rows = by_key(dimension, printed["rows"])
            for key in sorted({*rows, *table}, key=str):
                report.where = "%s, %s, %s %s" % (when, how, dimension, key)
                table.get(key, Sums()).compare(rows.get(key, {}), report)
            report.where = "%s, %s, total by %s" % (when, how, dimension)
            total.compare(printed["total"], report)


def by_key(dimension, rows):
    """Returns rows by key; rows of a session in two places are added."""
    found = {}
    for row in rows:
        key = row.get(dimension.replace("-", "_"), row["key"]) or "unknown"
        known = found.setdefault(key, row)
        if known is not row:
            found[key] = {name: together(known.get(name), row.get(name)) for name in (*COUNTS, "requests", "web_searches", "unpriced", "cost_usd")}
    return found


def together(one, other):
    """Adds two figures; money is text, and None if nothing has a price."""
    if isinstance(one, str) or isinstance(other, str):
        return str(Decimal(one or 0) + Decimal(other or 0))
    return None if one is None and other is None else (one or 0) + (other or 0)


def grow(root, sessions):
    """Appends to sessions with gencorpus."""
    command = [sys.executable, "-B", str(GENCORPUS / "gencorpus.py"), "--out", str(root), "--grow", str(sessions), "--no-truth"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def run(arguments, command, scratch):
    """Compares all roots and returns the report."""
    report, prices = Report(), Prices(arguments.prices)
    ways = [("first", []), ("again", [])]
    if "--no-index" in Annals(command, arguments.dirs[0]).run("cost", "--help"):
        ways.append(("without index", ["--no-index"]))
    else:
        print("verify_cost: annals has no --no-index: that way is left out", file=sys.stderr)
    for number, folder in enumerate(arguments.dirs):
        # Uses neither the user's index nor the user's prices.
        state = scratch / str(number)
        os.environ.update(ANNALS_STATE_DIR=str(state), ANNALS_CONFIG_DIR=str(scratch / "config"))
        verify(Annals(command, folder), prices, report, folder.name, ways)
        if arguments.grow:
            copy = scratch / "copy"
            shutil.copytree(folder, copy)
            annals = Annals(command, copy)
            annals.json("cost", "--by", "day")
            grow(copy, arguments.grow)
            verify(annals, prices, report, folder.name + " grown", ways[1:])
            shutil.rmtree(copy)
    return report


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dirs", metavar="DIR", type=Path, nargs="+", help="the root of a claude-code history")
    parser.add_argument("--annals", metavar="PROGRAM", help="the program (target/release/annals, built if missing)")
    parser.add_argument("--prices", metavar="FILE", default=PRICES, help="the price list (the one in the repository)")
    parser.add_argument("--grow", metavar="K", type=int, default=0, help="also compare after K sessions of a copy have grown")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    for folder in arguments.dirs:
        if not (folder / "projects").is_dir():
            parser.error("%s holds no folder projects/" % folder)
    return arguments


def main():
    """Runs the comparison, prints the results, returns the exit code."""
    arguments = parse_arguments()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            report = run(arguments, find_annals(arguments.annals), Path(scratch))
    except (AnnalsError, OSError, subprocess.CalledProcessError) as error:
        print("verify_cost: %s" % error, file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps({"ok": not report.differences, "figures": report.figures, "costs_left_out": report.left_out,
                          "differences": report.differences}, indent=1, ensure_ascii=False))
        return 1 if report.differences else 0
    for row in report.differences[:SHOWN]:
        print("%(where)s: %(figure)s is %(found)s, not %(expected)s" % row)
    if len(report.differences) > SHOWN:
        print("… and %d more" % (len(report.differences) - SHOWN))
    if report.left_out:
        print("the cost of %d rows was not compared: they have models that this script does not find in the list" % report.left_out)
    if report.differences:
        print("%d of %d figures differ" % (len(report.differences), report.figures))
        return 1
    print("all %d figures equal" % report.figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
