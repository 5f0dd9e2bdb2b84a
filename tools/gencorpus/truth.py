#!/usr/bin/env python3
"""truth.py - usage of a claude-code history, computed from its files alone.

A second implementation of the ledger's rule, independent of the program and of the generator's
totals: plain, slow, and meant to be checked by reading it. `truth.py DIR` adds its results to
DIR/manifest.json (or creates it).

The rule
  * A response is one message.id + requestId. A line without requestId belongs to the response of
    its message.id; a line without message.id is a separate response.
  * Of all lines of a response, in any file, the one with the most output tokens counts, as a whole.
  * Its time is the earliest of its lines.
  * It is charged once, to one session (`payer`, below). Responses of sub-agents are charged to
    their session.
  * Its git branch is that of the payer's line. A line without one has the branch of the model's
    previous line, and an empty name is no branch.
  * The model <synthetic> is the client itself and costs nothing.
  * Cache writes are those of usage.cache_creation if present, else all have a 5-minute lifetime.
  * A count that is negative, broken, not a number or absurdly large is ignored.
  * A line that is not a JSON object is ignored. (The program also finds whole records inside
    damaged lines; the generator writes no such lines.)
"""
import argparse
import datetime as dt
import decimal
import json
import os
import sys

COUNTS = ("input", "output", "cache_5m", "cache_1h", "cache_read")
ABSURD = 10**12
LATE = dt.datetime.max.replace(tzinfo=dt.timezone.utc)      # for lines without a time
SUMS = ("responses", "requests", "tokens_last", "tokens_first", "tokens_naive", "web_searches",
        "by_day", "by_session", "by_agent", "by_git_branch", "sidechain")


def logs(root):
    """Yields (path, session, agent) of every log; None for the session of a loose agent log, which
    is named in its lines."""
    top = os.path.join(root, "projects")
    for folder, _, names in os.walk(top):
        for name in names:
            stem, end = os.path.splitext(name)
            path = os.path.join(folder, name)
            # A file that records the origin of a conversion, not a log.
            if end != ".jsonl" or stem == "annals-origin":
                continue
            parts = os.path.relpath(path, top).split(os.sep)
            if not stem.startswith("agent-"):
                yield path, stem, None
            elif "subagents" in parts:
                yield path, parts[parts.index("subagents") - 1], stem[len("agent-"):]
            else:
                yield path, None, stem[len("agent-"):]


def count(value):
    """Returns a token count, or None if the value cannot be one."""
    if not number(value) or not 0 <= value < ABSURD or value != int(value):
        return None
    return int(value)


def number(value):
    """Returns whether a JSON value is a number (fractions are parsed as exact decimals)."""
    return isinstance(value, (int, decimal.Decimal)) and not isinstance(value, bool)


def usage(said):
    """Returns the counts of one line, or None if it has none."""
    if not isinstance(said, dict):
        return None
    split = said.get("cache_creation")
    split = split if isinstance(split, dict) else {}
    server = said.get("server_tool_use")
    server = server if isinstance(server, dict) else {}
    found = [count(said.get("input_tokens")), count(said.get("output_tokens")),
             count(split.get("ephemeral_5m_input_tokens")), count(split.get("ephemeral_1h_input_tokens")),
             count(said.get("cache_read_input_tokens")), count(server.get("web_search_requests"))]
    unsplit = count(said.get("cache_creation_input_tokens"))
    if unsplit is None and all(one is None for one in found):
        return None
    short, long = found[2] or 0, found[3] or 0
    if short == long == 0:
        short = unsplit or 0
    counts = dict(zip(COUNTS, (found[0] or 0, found[1] or 0, short, long, found[4] or 0)))
    counts["web_searches"] = found[5] or 0
    return counts


def moment(said):
    """Returns a time in UTC, or None. A number is milliseconds since 1970."""
    try:
        if number(said):
            return dt.datetime.fromtimestamp(int(said) / 1000, dt.timezone.utc)
        time = dt.datetime.fromisoformat(said.replace("Z", "+00:00")) if isinstance(said, str) else None
    except (ValueError, OverflowError, OSError):
        return None
    return time.astimezone(dt.timezone.utc) if time and time.tzinfo else None


def lines(root):
    """Yields every assistant line with counts or a price, as a dictionary, in path order."""
    for path, session, agent in sorted(logs(root)):
        branch = None
        with open(path, "rb") as file:
            for at, raw in enumerate(file):
                line = read(raw)
                if not isinstance(line, dict):
                    continue
                named = line.get("sessionId")
                if session is None and isinstance(named, str) and named:
                    session = named
                message = line.get("message")
                if line.get("type") != "assistant":
                    continue
                if isinstance(line.get("gitBranch"), str):
                    branch = line["gitBranch"] or None
                if not isinstance(message, dict):
                    continue
                counts, price = usage(message.get("usage")), line.get("costUSD")
                price = price if number(price) and price >= 0 else None
                aside = line.get("agentId") if line.get("isSidechain") is True else None
                if message.get("model") == "<synthetic>" or (counts is None and price is None):
                    continue
                yield {
                    "path": path, "at": at, "session": session, "agent": agent or aside or None, "git_branch": branch,
                    "id": message.get("id") or None, "request": line.get("requestId") or None,
                    "model": message.get("model"), "time": moment(line.get("timestamp")),
                    "terms": terms(message.get("usage")),
                    "counts": counts or dict.fromkeys((*COUNTS, "web_searches"), 0), "price": price,
                    "copied": bool(line.get("forkedFrom")) or (isinstance(named, str) and named != session),
                }


def read(raw):
    """Returns the parsed line, or None if it is not JSON. Strings may contain invalid UTF-8."""
    try:
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = raw.decode("utf-8-sig", "replace")
        return json.loads(text, parse_float=decimal.Decimal, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def terms(said):
    """Returns what else may change a price: (pace, place)."""
    said = said if isinstance(said, dict) else {}
    paces = [name for name in (said.get("speed"), said.get("service_tier")) if name in ("batch", "flex", "priority", "fast")]
    return (paces[0] if paces else "standard", said.get("inference_geo"))


def responses(root):
    """Returns every response once: the counts of its largest line, its earliest time, and the
    members of the payer's line."""
    told = list(lines(root))
    requests = {}                                       # message.id → the first request that names it
    for line in told:
        if line["id"] and line["request"]:
            requests.setdefault(line["id"], line["request"])
    groups = {}
    for line in told:
        if line["id"]:
            key = (line["id"], line["request"] or requests.get(line["id"]))
        else:
            key = (line["path"], line["at"])
        groups.setdefault(key, []).append(line)
    own, started = {}, {}                               # session → time of its first unshared response; of its first
    for group in groups.values():
        sessions = {line["session"] for line in group}
        for line in group:
            if line["time"] is not None:
                name = line["session"]
                started[name] = min(started.get(name, line["time"]), line["time"])
                if len(sessions) == 1:
                    own[name] = min(own.get(name, line["time"]), line["time"])
    found = []
    for group in groups.values():
        largest = max(group, key=size)
        first = payer(group, own, started)
        times = [line["time"] for line in group if line["time"] is not None]
        prices = [line["price"] for line in group if line["price"] is not None]
        found.append({**first, "counts": largest["counts"], "terms": largest["terms"], "lines": group,
                      "time": min(times, default=None), "price": max(prices, default=None)})
    return found


def size(line):
    """Sort key: of two lines of a response, the larger one has more usage."""
    counts = line["counts"]
    return counts["output"], sum(counts[name] for name in COUNTS), *(counts[name] for name in COUNTS)


def payer(group, own, started):
    """Returns the line of the session that had the response first.

    Forks repeat lines with their times, so times tie. Then the session without own responses comes
    first, then the one whose own responses start first: the others contain it and more.
    """
    def rank(session, of_it):
        return (all(line["copied"] for line in of_it), min(line["time"] or LATE for line in of_it),
                session in own, own.get(session, LATE), started.get(session, LATE), str(session))

    sessions = {}
    for line in group:
        sessions.setdefault(line["session"], []).append(line)
    _, lines_of_it = min(sessions.items(), key=lambda item: rank(*item))
    # A sub-agent's log may repeat earlier lines of the main agent.
    return min(lines_of_it, key=lambda line: (line["time"] or LATE, line["agent"] is not None, line["path"], line["at"]))


def truth(root):
    """Returns the sums for the manifest: correct ones by model, day, session, agent and git branch,
    and two deliberately wrong ones by model."""
    found = responses(root)
    models, firsts, naive, days, sessions, agents, branches, sides = ({} for _ in range(8))
    for response in found:
        model, counts = response["model"] or "unknown", response["counts"]
        add(models, model, counts)
        add(days.setdefault(day(response), {}), model, counts)
        add(sessions, response["session"] or "unknown", counts)
        add(agents, response["agent"] or "main", counts)
        add(branches, response["git_branch"] or "unknown", counts)
        if response["agent"]:
            add(sides, model, counts)
        add(firsts, model, min(response["lines"], key=lambda line: line["time"] or LATE)["counts"])
        for line in response["lines"]:
            add(naive, line["model"] or "unknown", line["counts"])

    def tokens(rows):
        return {model: {name: row[name] for name in COUNTS} for model, row in rows.items()}

    requests = {model: row["requests"] for model, row in models.items()}
    searches = sum(response["counts"]["web_searches"] for response in found)
    return dict(zip(SUMS, (len(found), requests, tokens(models), tokens(firsts), tokens(naive), searches,
                           days, sessions, agents, branches, sides)))


def day(response):
    """Returns the UTC date of a response."""
    return response["time"].date().isoformat() if response["time"] else "unknown"


def add(table, key, counts):
    """Adds the counts of one response to a row."""
    row = table.setdefault(key, dict.fromkeys((*COUNTS, "requests"), 0))
    for name in COUNTS:
        row[name] += counts[name]
    row["requests"] += 1
    if counts["web_searches"]:
        row["web_searches"] = row.get("web_searches", 0) + counts["web_searches"]


def update(root):
    """Adds the sums to the manifest; returns it, and the names of the figures that changed."""
    path = os.path.join(root, "manifest.json")
    manifest = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
    sums = truth(root)
    differ = [key for key in sums if key in manifest and manifest[key] != sums[key]]
    manifest.update(sums)
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1, sort_keys=True)
    os.replace(path + ".part", path)
    return manifest, differ


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", metavar="DIR", help="the root of a claude-code history: the folder that holds projects/")
    parser.add_argument("--print", action="store_true", help="print the sums and leave the manifest as it is")
    args = parser.parse_args()
    if not os.path.isdir(os.path.join(args.dir, "projects")):
        parser.error(f"{args.dir} holds no folder projects/")
    if args.print:
        print(json.dumps(truth(args.dir), indent=1, sort_keys=True))
        return 0
    manifest, differ = update(args.dir)
    print(f"{manifest['responses']} responses of {len(manifest['by_session'])} sessions on {len(manifest['by_day'])} days"
          + (f"; changed: {', '.join(differ)}" if differ else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
