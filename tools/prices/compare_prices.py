#!/usr/bin/env python3
"""Compares the price list with that of `litellm`, by litellm's model names.

Prints a Markdown table of the differences, and the names that annals does not match. Exit codes: 0
no difference, 1 something differs, 2 could not run.
"""
import argparse
import json
import subprocess
import sys
import zipfile
from decimal import Decimal
from pathlib import Path

TABLE = "litellm/model_prices_and_context_window_backup.json"
# Vendors only; resellers have their own prices.
PROVIDERS = {"anthropic", "openai", "gemini", "xai", "deepseek", "mistral", "moonshot", "zai"}
FIELDS = {"input": "input_cost_per_token", "output": "output_cost_per_token",
          "cache_write_5m": "cache_creation_input_token_cost",
          "cache_write_1h": "cache_creation_input_token_cost_above_1hr", "cache_read": "cache_read_input_token_cost"}


def main():
    """Looks up every name with annals and compares the prices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("litellm", type=Path, help="the downloaded wheel of litellm, or its JSON")
    parser.add_argument("--annals", default="target/debug/annals", help="the program")
    arguments = parser.parse_args()
    theirs = {name: row for name, row in load(arguments.litellm).items() if wanted(row)}
    asked = subprocess.run([arguments.annals, "prices", "--json", "--", *theirs], stdout=subprocess.PIPE, check=False)
    if asked.returncode > 1:
        return 2
    matches = json.loads(asked.stdout, parse_float=Decimal)["matches"]
    differ, unknown = [], []
    for match in matches:
        row = theirs[match["asked"]]
        if match["model"] is None:
            unknown.append(match["asked"])
        elif found := differences(match, row):
            differ.append((match["asked"], match["model"], found))
    print(f"{len(matches)} names, {len(differ)} differ, {len(unknown)} not matched\n")
    print("| name at litellm | model here | differences (here, there) |\n|---|---|---|")
    for asked_name, model, found in differ:
        print(f"| `{asked_name}` | `{model}` | {'; '.join(found)} |")
    print("\nNot matched: " + ", ".join(f"`{name}`" for name in unknown))
    return 1 if differ or unknown else 0


def load(path):
    """Reads litellm's table, with exact numbers."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            text = wheel.read(TABLE).decode()
    else:
        text = path.read_text(encoding="utf-8")
    return json.loads(text, parse_float=Decimal)


def wanted(row):
    """Returns whether a row is a chat model of its vendor."""
    speaks = row.get("mode") in ("chat", "responses")
    return speaks and row.get("litellm_provider") in PROVIDERS and row.get("input_cost_per_token")


def differences(match, row):
    """Returns the differing prices, for the base and for larger contexts."""
    found = []
    base = match["holds"] or {}
    found += compare("", base, row, "")
    for listed in match["rows"]:
        if listed["above"] and listed["pace"] == "standard" and listed["from"] == base.get("from"):
            thousands = (listed["above"] + 1) // 1000
            found += compare(f" above {thousands}k", listed, row, f"_above_{thousands}k_tokens")
    return found


def compare(label, ours, theirs, suffix):
    """Yields the fields that both lists have and that differ."""
    for field, name in FIELDS.items():
        here, there = ours.get(field), theirs.get(name + suffix)
        if here is None or not there:
            continue
        there = Decimal(there) * 1_000_000
        if Decimal(here) != there:
            yield f"{field}{label} {here}, {there.normalize():f}"


if __name__ == "__main__":
    sys.exit(main())
