#!/usr/bin/env python3
"""Compares the token totals of annals with those of ccusage, for the agents that both read.

    verify_ccusage.py --annals PROGRAM [--ccusage PROGRAM] [--json] [FIXTURES]

FIXTURES is the folder with one folder per layout and recording (default: `fixtures` of the repository). Each recording is
copied to the place where its program would have it, in an empty home, and both are asked. Without --ccusage the native program
is installed from npm. Prints a row for each recording whose totals differ, and a count. Differences that are explained stand
in EXPLAINED; any other fails.

Exit codes: 0 equal, or explained, 1 a difference without an explanation, 2 could not run.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "bench"))
from cost import install_ccusage  # noqa: E402

# The place of each program's data below the home directory.
PLACES = {"claude-code": ".claude", "codex": ".codex", "gemini": ".gemini", "opencode": ".local/share/opencode",
          "pi": ".pi/agent", "copilot": ".copilot", "qwen": ".qwen", "droid": ".factory"}
COMMANDS = {"claude-code": "claude"}
FIELDS = (("inputTokens", "input"), ("cacheCreationTokens", "cache_write"), ("cacheReadTokens", "cache_read"))
COPIES = "ccusage charges each copy that a fork made of a response; annals charges a response once"
DAMAGE = "ccusage skips the whole line, or the file, where one part of it is damaged or unusual; annals takes what can be read"
CACHE = "Qwen Code's input includes the cache; ccusage adds the cache to it again, and does not count side calls without a message"
EXPLAINED = {
    "claude-code/1.0.128-s01-multiturn": "client 1.0 copies a resumed session without its request ids: " + COPIES,
    "claude-code/glued-records": DAMAGE,
    "claude-code/invalid-utf8": DAMAGE,
    "claude-code/number-spellings": DAMAGE,
    "claude-code/timestamps-odd": "ccusage skips responses without a time; annals counts them without a day",
    "claude-code/usage-absurd": DAMAGE,
    "claude-code/usage-no-request-id": "without a request id ccusage counts each line of a response; annals goes by the message id",
    "claude-code/usage-unknown-model": "ccusage skips a response without a model; annals counts it as unpriced",
    "codex/made-rollback": "two threads with equal times and counts: ccusage takes the second for a copy of the first",
    "codex/made-sub-agent": "ccusage reads `token_count` alone; these rollouts have only `token_usage_record`",
    "gemini/made-by-annals": "ccusage goes by the recorded total to tell if input includes the cache; the totals here are made up",
    "gemini/made-document-tools": "ccusage goes by the recorded total to tell if input includes the cache; the totals here are made up",
    "gemini/made-sub-agent": "ccusage goes by the recorded total to tell if input includes the cache; the totals here are made up",
    "opencode/1.18-s03-fork": COPIES,
    "opencode/made-files": DAMAGE,
    "pi/0.87-s03-tree": COPIES,
    "pi/0.87-s05-compact": "ccusage does not count the call that wrote the summary of a compaction",
    "pi/0.87-s11-forkcli": COPIES,
    "copilot/made-odd": DAMAGE,
    "droid/made-odd": "ccusage adds thinking tokens to the output tokens, which include them",
    "qwen/0.24-s01-qa": CACHE,
    "qwen/0.24-s02-tools": CACHE,
    "qwen/0.24-s06-interrupt": CACHE,
    "qwen/made-by-annals": CACHE,
    "qwen/made-odd": CACHE,
    "qwen/made-sub-agent": CACHE,
}


def of_ccusage(program, layout, env):
    """Returns ccusage's totals, or what it said instead."""
    command = [program, COMMANDS.get(layout, layout), "daily", "--offline", "--json"]
    run = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, check=False)
    try:
        totals = json.loads(run.stdout).get("totals") or {}
    except (ValueError, AttributeError):
        return (run.stdout + run.stderr).strip()[:80]
    found = {ours: totals.get(theirs) or 0 for theirs, ours in FIELDS}
    # For some agents its `outputTokens` excludes reasoning, for others not; its sum of all tokens includes it.
    return found | {"output": (totals.get("totalTokens") or 0) - sum(found.values())}


def of_annals(program, layout, root, env):
    command = [program, "--no-index", "--root", f"{layout}:{root}", "--json", "cost", "--by", "model"]
    run = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, check=False)
    total = json.loads(run.stdout)["total"]
    written = total["cache_write_5m"] + total["cache_write_1h"]
    return {"input": total["input"], "cache_write": written, "cache_read": total["cache_read"], "output": total["output"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fixtures", metavar="FIXTURES", type=Path, nargs="?", default=REPOSITORY / "fixtures")
    parser.add_argument("--annals", type=Path, required=True)
    parser.add_argument("--ccusage", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    ccusage = given.ccusage or (install_ccusage() or {}).get("program")
    if not ccusage:
        print("ccusage cannot be installed from npm", file=sys.stderr)
        return 2
    rows = []
    for layout, place in PLACES.items():
        for recording in sorted(path for path in (given.fixtures / layout).iterdir() if path.is_dir()):
            with tempfile.TemporaryDirectory() as home:
                root = Path(home, place)
                shutil.copytree(recording, root)
                env = {"PATH": os.environ["PATH"], "HOME": home, "TZ": "UTC", "ANNALS_STATE_DIR": home + "/annals"}
                ours, theirs = of_annals(given.annals, layout, root, env), of_ccusage(ccusage, layout, env)
            rows.append({"recording": f"{layout}/{recording.name}", "annals": ours, "ccusage": theirs,
                         "equal": ours == theirs, "explained": EXPLAINED.get(f"{layout}/{recording.name}")})
    if given.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            if not row["equal"]:
                print(f"{row['recording']}: {row['explained'] or 'NOT EXPLAINED'}\n  annals   {row['annals']}\n  ccusage  {row['ccusage']}")
    equal = sum(row["equal"] for row in rows)
    failed = [row for row in rows if not row["equal"] and not row["explained"]]
    print(f"{len(rows)} recordings: {equal} equal, {len(rows) - equal - len(failed)} explained, {len(failed)} not explained",
          file=sys.stderr if given.json else sys.stdout)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
