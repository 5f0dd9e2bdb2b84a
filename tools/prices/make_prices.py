#!/usr/bin/env python3
"""Writes crates/annals-cost/data/prices.csv from the package `genai-prices` and additions.csv.

The list only grows: existing rows stay, and a price that differs in the package is reported, not
taken. A changed price is a new row with a date; add it to additions.csv.
"""
import argparse
import ast
import csv
import datetime
import io
import re
import sys
import zipfile
from decimal import Decimal
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "crates" / "annals-cost" / "data" / "prices.csv"
ADDITIONS = HERE / "additions.csv"

COLUMNS = ["model", "provider", "from", "above", "pace", "input", "output", "cache_write_5m", "cache_write_1h",
           "cache_read", "web_search", "us_percent", "context", "same_as", "source"]
KEY = ["model", "from", "above", "pace"]

HEAD = """\
# What models cost. Made by tools/prices/make_prices.py from the package genai-prices (MIT) and additions.csv.
#
# Prices are dollars for a million tokens; web_search is dollars for a thousand searches. A row holds from a day on
# (`from`, UTC; empty: always did), for contexts above so many tokens (`above`; empty: for all others), and for answers
# at a pace (empty: standard). A newer day replaces all rows of its model and pace. us_percent is the price of answers
# that must be made in the United States, in percent. `same_as` is the model that a name stands for.
# Sorted by model, with `.` as `-`: the program looks rows up by bisection.
"""

# Vendors whose own lists are taken completely.
VENDORS = ["anthropic", "openai", "google", "x-ai", "deepseek", "mistral", "moonshotai", "zai", "zhipuai", "minimax",
           "meta", "cohere", "perplexity", "cursor", "aws"]
# Vendors without their own list, as a reseller lists them.
RESOLD = {"qwen": "qwen", "meta-llama": "meta", "nvidia": "nvidia", "microsoft": "microsoft", "baidu": "baidu",
          "tencent": "tencent", "xiaomi": "xiaomi", "stepfun": "stepfun", "bytedance-seed": "bytedance",
          "inception": "inception", "kwaipilot": "kwaipilot", "poolside": "poolside", "meituan": "meituan",
          "thinkingmachines": "thinkingmachines", "arcee-ai": "arcee", "ai21": "ai21", "ibm-granite": "ibm"}
# Names in the package that differ from the vendor's.
RENAMED = {"claude-3-5-haiku-latest": "claude-3-5-haiku", "claude-3-7-sonnet-latest": "claude-3-7-sonnet",
           "claude-3-opus-latest": "claude-3-opus", "claude-opus-4-0": "claude-opus-4",
           "claude-sonnet-4-0": "claude-sonnet-4", "claude-v1": "claude-1", "gemini-pro-1.5": "gemini-1.5-pro",
           "gemini-flash-1.5": "gemini-1.5-flash", "gemini-flash-1.5-8b": "gemini-1.5-flash-8b"}
# Rows of the package for which another row is better.
LEFT_OUT = {("google", "gemini-1.5-pro"), ("google", "gemini-1.5-flash"), ("openai", "gpt-4o:extended")}
# Models that agents do not use: images, audio, embeddings.
OTHER_WORK = re.compile(r"image|tts|audio|realtime|transcribe|embed|whisper|-live|moderation|video|robotics|voice|ocr|"
                        r"voxtral|rerank|guard|sonic|omni|nano-banana|content-safety|^ft:|\.ft-|:|-vision|"
                        r"^(text-)?(ada|babbage|curie|davinci)")
# Models since Opus 4.6, for which inference in the United States costs 10 percent more.
US_MORE = re.compile(r"^claude-(opus-(4-[678]|5)|sonnet-(4-6|5)|haiku-5|fable|mythos)")
# Models without batch prices: older ones, and the fast modes.
NO_BATCHES = re.compile(r"^claude-(1|2|instant)$|-fast$")
PACES = {("processing", "batch"): "batch", ("service_tier", "flex"): "flex",
         ("service_tier", "priority"): "priority", ("service_tier", "fast"): "fast"}
FIELDS = {"input_mtok": "input", "output_mtok": "output", "cache_write_mtok": "cache_write_5m",
          "cache_write_1h_mtok": "cache_write_1h", "cache_read_mtok": "cache_read", "web_searches_kcount": "web_search"}
TOKENS = ["input", "output", "cache_write_5m", "cache_write_1h", "cache_read"]


def main():
    """Reads both sources and the present list, and writes the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="the downloaded wheel of genai-prices, or its data.py")
    parser.add_argument("--out", type=Path, default=TARGET, help="the list (default: the repository's)")
    parser.add_argument("--replace", action="append", default=[], metavar="MODEL",
                        help="take the package's prices for this model even where they differ")
    arguments = parser.parse_args()
    version, providers = load(arguments.package)
    fresh = package_rows(providers, f"genai-prices {version}")
    additions = read_list(ADDITIONS)
    known = read_list(arguments.out) if arguments.out.exists() else {}
    # The package may drop a model; the list does not.
    complete(additions, fresh)
    complete(additions, known)
    rows = merge(known, fresh, additions, set(arguments.replace))
    add_derived(rows)
    faults = check(rows)
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 1
    arguments.out.write_text(render(rows), encoding="utf-8")
    print(f"{len(rows)} rows, {len({row['model'] for row in rows.values()})} names")
    return 0


def load(path):
    """Returns the package's version and its table, without running its code."""
    version = "?"
    if path.suffix == ".whl":
        version = path.name.split("-")[1]
        with zipfile.ZipFile(path) as wheel:
            text = wheel.read("genai_prices/data.py").decode()
    else:
        text = path.read_text(encoding="utf-8")
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.AnnAssign) and getattr(statement.target, "id", "") == "providers":
            return version, plain(statement.value)
    raise SystemExit(f"{path}: no table of providers in it")


def plain(node):
    """Converts literals to values, and constructor calls to dictionaries of their arguments."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple)):
        return [plain(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {plain(key): plain(value) for key, value in zip(node.keys, node.values)}
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", None) or node.func.attr
        values = [plain(value) for value in node.args]
        if name == "Decimal":
            return Decimal(values[0])
        if name == "date":
            return datetime.date(*values).isoformat()
        return {"": name, **{keyword.arg: plain(keyword.value) for keyword in node.keywords}}
    return None


def package_rows(providers, source):
    """Returns the package's rows for the listed vendors, by key."""
    rows = {}
    order = {name: at for at, name in enumerate(VENDORS + ["openrouter"])}
    chosen = sorted((p for p in providers if p["id"] in order), key=lambda p: order[p["id"]])
    aliases = []
    for provider in chosen:
        for model in provider["models"]:
            name, vendor = name_of(provider["id"], model["id"])
            if name is None:
                continue
            # The first vendor of a name keeps it.
            if any(key[0] == spelled(name) and row["provider"] != vendor for key, row in rows.items()):
                continue
            via = f"{source} ({provider['id']})" if vendor not in (provider["id"], "amazon") else source
            for row in model_rows(model, name, vendor):
                rows.setdefault(key_of(row), {**row, "source": via})
            aliases += [(alias.lower(), name) for alias in equals(model.get("match"))]
    names = {key[0] for key in rows}
    for alias, name in aliases:
        base = re.sub(r"([-@]\d{8}|-\d{4}-\d{2}-\d{2}|-latest|-\d{3})$", "", alias)
        odd = "/" in alias or OTHER_WORK.search(alias) or spelled(base) == spelled(name)
        if not odd and spelled(alias) not in names and spelled(name) in names:
            row = blank(model=alias, same_as=name)
            rows.setdefault(key_of(row), row)
    return rows


def name_of(provider, name):
    """Returns the name and the vendor under which a model is listed, or None for both."""
    if (provider, name) in LEFT_OUT:
        return None, None
    name = RENAMED.get(name, name).lower()
    vendor = {"zhipuai": "zai", "aws": "amazon"}.get(provider, provider)
    if provider == "aws":
        found = re.fullmatch(r"(?:global\.)?amazon\.((?:nova|titan-text)[a-z0-9-]*)-v\d(?::\d)?", name)
        name = found and found[1]
    elif provider == "openrouter":
        prefix, _, rest = name.partition("/")
        vendor, name = RESOLD.get(prefix), rest
        name = name if vendor else None
    elif provider == "cursor" and not name.startswith("composer"):
        name = None
    elif provider == "google" and name.startswith("claude"):
        name = None
    elif provider in ("mistral", "perplexity") and ("zai-" in name or "/" in name):
        name = None
    if not name or OTHER_WORK.search(name) or not re.fullmatch(r"[a-z0-9._-]+", name):
        return None, None
    return name, vendor


def model_rows(model, name, vendor):
    """Yields the rows of one model: its periods at the standard pace, then its other paces."""
    periods = model["prices"] if isinstance(model["prices"], list) else [{"prices": model["prices"]}]
    dated = []
    for period in periods:
        condition = period.get("constraint")
        if condition and "start_date" not in condition:
            continue  # time-of-day prices: not in the list
        dated.append((condition["start_date"] if condition else "", period["prices"]))
    facts = {"model": name, "provider": vendor, "context": text(model.get("context_window"))}
    for start, prices in dated:
        yield from period_rows({**facts, "from": start}, prices)
    for variant in model.get("price_variants") or []:
        pace = PACES.get(next(iter(variant["when"].items())))
        if pace is None:
            continue
        # The package dates a pace by the day it was checked. It starts with the period in force
        # that day.
        looked = (variant.get("constraint") or {}).get("start_date", "9999")
        start, base = [period for period in dated if period[0] <= looked][-1]
        yield from period_rows({**facts, "from": start, "pace": pace}, {**base, **variant["prices"]})


def period_rows(facts, prices):
    """Yields the rows of one period: the base, and each context size with another price."""
    values = {FIELDS[name]: value for name, value in prices.items() if name in FIELDS and value is not None}
    if not {"input", "output"} <= set(values):
        return
    starts = {tier["start"] for value in values.values() if isinstance(value, dict) for tier in value["tiers"]}
    for start in [0, *sorted(starts)]:
        row = blank(**facts, above=text(start or None))
        for field, value in values.items():
            if isinstance(value, dict):
                tiers = [tier for tier in value["tiers"] if tier["start"] <= start]
                value = max(tiers, key=lambda tier: tier["start"])["price"] if tiers else value["base"]
            row[field] = text(value)
        yield row


def equals(match):
    """Yields the exact names that a match rule of the package contains."""
    if not match:
        return
    if match[""] == "ClauseEquals":
        yield match["equals"]
    for inner in match.get("or_") or []:
        yield from equals(inner)


def complete(additions, rows):
    """Fills empty columns of an addition from the row of the same key."""
    for key, row in additions.items():
        for column, value in rows.get(key, {}).items():
            row[column] = row[column] or value


def merge(known, fresh, additions, replaced):
    """Merges the rows: additions override the present list, which overrides the package."""
    rows = {key: row for key, row in known.items() if key not in fresh or row["model"] not in replaced}
    for key, row in fresh.items():
        if key in additions or key not in rows:
            rows.setdefault(key, row)
            continue
        old = rows[key]
        changed = [f"{c} {old[c] or '-'} → {row[c] or '-'}" for c in TOKENS if old[c] != row[c]]
        if changed and old["source"].startswith("genai-prices"):
            print(f"differs: {' '.join(filter(None, key))}: {', '.join(changed)} (kept; --replace {row['model']})",
                  file=sys.stderr)
    # An addition may replace a model by an alias, and the reverse.
    rows.update(additions)
    return rows


def add_derived(rows):
    """Adds rows derived from the vendor's rules: searches, half-price batches, United States."""
    for key, row in list(rows.items()):
        if row["provider"] != "anthropic":
            continue
        row["web_search"] = row["web_search"] or "10"
        if US_MORE.match(row["model"]):
            row["us_percent"] = "110"
        if row["pace"] == "" and not NO_BATCHES.search(row["model"]):
            # Anthropic's batches cost half of every price except searches.
            halves = {field: half(row[field]) for field in TOKENS}
            batch = {**row, **halves, "pace": "batch"}
            listed = rows.get(key_of(batch))
            if listed and any(listed[field] != halves[field] for field in TOKENS):
                print(f"no half: {row['model']} {listed}", file=sys.stderr)
            rows.setdefault(key_of(batch), {**batch, "source": "half of the standard price"})
        if row["pace"] == "fast":
            # Resellers list the fast mode under a separate name.
            named = {**row, "model": f"{row['model']}-fast", "pace": ""}
            rows.setdefault(key_of(named), named)


def check(rows):
    """Returns the errors of the list as messages."""
    faults = []
    models = {}
    for row in rows.values():
        models.setdefault(spelled(row["model"]), set()).add(row["model"])
    for names in models.values():
        if len(names) > 1:
            faults.append(f"one name, two spellings: {sorted(names)}")
    for row in rows.values():
        if row["same_as"]:
            if not any(other["model"] == row["same_as"] and not other["same_as"] for other in rows.values()):
                faults.append(f"{row['model']} is said to be {row['same_as']}, which is not listed")
            if any(other["model"] == row["model"] and not other["same_as"] for other in rows.values()):
                faults.append(f"{row['model']} is listed and said to be {row['same_as']}")
            continue
        for field in TOKENS:
            if row[field] and -Decimal(row[field]).as_tuple().exponent > 6:
                faults.append(f"{row['model']}: {field} {row[field]} is finer than a pico-dollar a token")
    return faults


def render(rows):
    """Formats the list as text."""
    out = io.StringIO()
    out.write(HEAD)
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    rank = ["", "batch", "flex", "priority", "fast"]
    order = lambda row: (spelled(row["model"]), rank.index(row["pace"]), row["from"], int(row["above"] or 0))
    writer.writerows(sorted(rows.values(), key=order))
    return out.getvalue()


def read_list(path):
    """Reads the rows of a list, by key."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {key_of(row): row for row in csv.DictReader(lines)}


def blank(**values):
    """Returns a row with these columns."""
    return {**dict.fromkeys(COLUMNS, ""), **values}


def key_of(row):
    """Returns the key that identifies a row."""
    return (spelled(row["model"]), *(row[column] for column in KEY[1:]))


def spelled(name):
    """Normalizes a name: dots and dashes are equal."""
    return name.replace(".", "-")


def half(number):
    """Returns half of a price."""
    return text(Decimal(number) / 2) if number else ""


def text(number):
    """Formats a number without trailing zeros."""
    if number is None:
        return ""
    number = format(Decimal(number), "f")
    return number.rstrip("0").rstrip(".") if "." in number else number


if __name__ == "__main__":
    sys.exit(main())
