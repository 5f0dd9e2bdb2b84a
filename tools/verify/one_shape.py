#!/usr/bin/env python3
"""Checks that every surface shows the same values: the library, `annals --json`, `annals serve`, Python, Node and `annals mcp`.

    one_shape.py --annals PROGRAM --rows EXAMPLE [--python INTERPRETER] [--node PACKAGE] [FIXTURE...]

Asks all of them for every fixture and every case of tools/resume-oracle: sessions, projects, hits, costs, findings, and each session in full. The rows of the
library are those of its example `rows`; those of the packages must be equal to them, `--json` and the answers of the
tools must be equal where they have the same member. A surface that is not given is left out by name. At the end, values
of each surface are changed one by one, and each change must be noticed.

Exit codes: 0 all equal, 1 something differs, 2 could not run.
"""
import argparse
import copy
import http.client
import json
import os
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent.parent / "fixtures"
# Greatest number up to which JavaScript has all integers.
EXACT = 2**53
# Longest title and project in answers of the tools, in bytes.
MAX_TITLE = 120


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--annals", type=Path, required=True)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--python", type=Path)
    parser.add_argument("--node", type=Path)
    parser.add_argument("fixtures", nargs="*", metavar="FIXTURE", help="LAYOUT:PATH")
    return parser.parse_args()


def all_fixtures():
    """Returns all roots of the fixtures, as LAYOUT:PATH."""
    for layout in sorted(FIXTURES.iterdir()):
        if layout.is_dir() and not layout.name.startswith("_"):
            for root in sorted(layout.iterdir()):
                if root.is_dir():
                    # An export is a root that is a file.
                    root = next(root.iterdir()) if layout.name == "export-file" else root
                    yield f"{layout.name}:{root}"


def recorded_cases(folder):
    """Writes the cases of which the messages that a real client sends are recorded, each as a root."""
    made = folder / "cases"
    made.mkdir()
    subprocess.run([sys.executable, "-B", HERE.parent / "resume-oracle" / "cases.py", made], check=True,
                   stdout=subprocess.DEVNULL)
    for case in sorted(made.glob("*.jsonl")):
        log = folder / "roots" / case.stem / "projects" / "-w" / "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee.jsonl"
        log.parent.mkdir(parents=True)
        case.rename(log)
        yield f"claude-code:{log.parents[2]}"


def documents(command, env):
    """Runs a program that prints a document for each root, and returns them in order."""
    ran = subprocess.run(list(map(str, command)), env=env, capture_output=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{command[0]} failed: {ran.stderr.decode(errors='replace')[-2000:]}")
    return [json.loads(line) for line in ran.stdout.splitlines()]


# --- the program --------------------------------------------------------------------------


def program_rows(annals, root, sessions, env):
    """Asks `annals --json` for the rows of a root."""

    def ask(*words):
        command = [annals, *words, "--root", root, "--no-index", "--json"]
        ran = subprocess.run(list(map(str, command)), env=env, capture_output=True, check=False)
        return json.loads(ran.stdout) if ran.stdout.strip() else {}

    return {
        "sessions": ask("sessions").get("sessions", []),
        "projects": ask("projects").get("projects", []),
        "cost": ask("cost", "--by", "model,day"),
        "search": ask("search", "the", "--limit", "50", "--context", "1"),
        "check": ask("check").get("files", []),
        "shown": {row["file"]: ask("show", row["file"]) for row in sessions},
    }


def program_differences(rows, library):
    for name in ("sessions", "projects", "check"):
        yield from differences(name, rows[name], library[name])
    for name in ("rows", "total", "unpriced_models"):
        if name in rows["cost"] or library["cost"][name]:
            yield from differences(f"cost.{name}", rows["cost"].get(name), library["cost"][name])
    hits = library["search"]["hits"]
    yield from differences("hits", rows["search"].get("hits", []), hits)
    for path, shown in rows["shown"].items():
        ours = library["opened"][path]
        if "entries" not in shown or "error" in ours:
            continue
        said = [entry for entry in shown["entries"] if entry["kind"] == "message"]
        ours = [entry for entry in ours["messages"] if entry["kind"] == "message"]
        yield from differences(f"show {path}", said, ours)


# --- the tools ----------------------------------------------------------------------------


class Tools:
    """A running `annals mcp`."""

    def __init__(self, annals, root, env):
        command = [str(annals), "--root", root, "--no-index", "mcp", "--no-mask", "--project", "/nowhere"]
        self.server = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL)
        self.count = 0
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self.ask("initialize", about)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.server.stdin.write(json.dumps(message).encode() + b"\n")
        self.server.stdin.flush()

    def ask(self, method, params):
        self.count += 1
        self.send({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params})
        for line in self.server.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.count:
                return answer["result"]
        raise RuntimeError("the server ended")

    def call(self, tool, **given):
        answer = self.ask("tools/call", {"name": tool, "arguments": given})
        return None if answer.get("isError") else answer["structuredContent"]

    def all(self, tool, rows, **given):
        """Returns the rows of all pages."""
        found, answer = [], self.call(tool, **given)
        while answer is not None:
            found += answer[rows]
            if "next" not in answer:
                return found
            answer = self.call(tool, **given, next=answer["next"])
        return None

    def close(self):
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()


def tool_rows(annals, root, sessions, env):
    """Asks the tools for the rows of a root."""
    tools = Tools(annals, root, env)
    try:
        return {
            "sessions": tools.all("sessions", "sessions", limit=100, budget=10_000),
            "hits": tools.call("search", query="the", limit=30, budget=10_000, include_live=True),
            "cost": tools.call("cost", by="model", top=50),
            "outlines": {row["file"]: tools.call("outline", session=row["file"], budget=10_000) for row in sessions},
        }
    finally:
        tools.close()


def plain(text, longest=MAX_TITLE):
    """Returns a text as the tools show it on a line, or None if that depends on hidden characters."""
    if text is None:
        return None
    line = " ".join(text.split())
    if any(not char.isprintable() for char in line):
        return ...
    if len(line.encode()) > longest:
        return ...
    return line


def tool_differences(rows, library):
    listed = [{"id": row["id"], "title": plain(row["title"]), "project": plain(row["project"]),
               "updated": row["updated"], "messages": row["messages"], "branches": row["conversations"],
               "agents": row["agents"], "cost_usd": row["cost_usd"]} for row in library["sessions"]]
    yield from matching("sessions", rows["sessions"], listed)
    hits = rows["hits"]
    # Echoes are no hits of the tools.
    if hits is not None and not any("mcp__annals__" in (hit["tool"] or "") for hit in library["search"]["hits"]):
        for name in ("total", "at_least", "sessions"):
            yield from differences(f"search.{name}", hits[name], library["search"][name])
        for hit in hits["hits"]:
            # Copies of a message may have its id.
            ours = [one for one in library["search"]["hits"] if one["id"] == hit["id"]]
            wanted = [{"session": one["session"], "title": plain(one["title"]), "role": one["role"], "part": one["part"],
                       "time": one["time"]} for one in ours]
            if "shortened" in hit or not wanted:
                continue
            found = {name: hit[name] for name in wanted[0]}
            different = [list(matching(f"hit {hit['id']}", found, one)) for one in wanted]
            if all(different):
                yield from different[0]
    cost = rows["cost"]
    if cost is not None:
        sums = {}
        for row in library["cost"]["rows"]:
            one = sums.setdefault(row["model"], dict.fromkeys(
                ("requests", "input", "output", "cache_write", "cache_read", "unpriced"), 0))
            for name in one:
                one[name] += (row["cache_write_5m"] + row["cache_write_1h"]) if name == "cache_write" else row[name]
        found = {row["key"]: {name: row[name] for name in one} for row in cost["rows"]} if sums else {}
        wanted = {model or "-": one for model, one in sums.items()}
        known = found.keys() & wanted.keys()
        yield from differences("cost models", len(found), len(wanted))
        for key in known:
            yield from differences(f"cost {key}", found[key], wanted[key])
        yield from differences("cost total", cost["total"]["cost_usd"], library["cost"]["total"]["cost_usd"])
    for path, outline in rows["outlines"].items():
        ours = library["opened"][path]
        if outline is None or "error" in ours:
            continue
        yield from differences(f"outline {path}", outline.get("cost_usd"), ours["cost"])
        if "branches" not in outline.get("left_out", {}):
            branches = [(it["leaf"], it["messages"], it["resumes"]) for it in outline["branches"]]
            wanted = [(it["leaf"], it["messages"], it["resumes"]) for it in ours["conversations"]]
            yield from differences(f"branches {path}", branches, wanted)


# --- the pages ----------------------------------------------------------------------------


def page_rows(annals, root, env):
    """Asks the JSON interface of `annals serve` for the rows of a root."""
    command = [str(annals), "--root", root, "--no-index", "serve", "--json"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            text, address = "", None
            for line in server.stdout:
                text += line
                try:
                    address = json.loads(text)
                    break
                except json.JSONDecodeError:
                    pass
            if address is None:
                return {}
            port = urllib.parse.urlsplit(address["api"]).port
            client = http.client.HTTPConnection("127.0.0.1", port)

            def ask(path):
                client.request("GET", path, headers={"Authorization": f"Bearer {address['token']}"})
                answer = json.loads(client.getresponse().read())
                return {"error": answer["error"]["kind"]} if "error" in answer else answer

            listed = ask("/api/v1/sessions")
            places = zip(listed["sessions"], listed["addresses"])
            return {
                "root": root,
                "projects": ask("/api/v1/projects")["projects"],
                "search": ask("/api/v1/search?q=the&context=1"),
                "cost": ask("/api/v1/cost?by=model,day"),
                "check": ask("/api/v1/check")["files"],
                "sessions": listed["sessions"],
                "opened": {row["file"]: ask(place) for row, place in places},
            }
        finally:
            server.terminate()


# --- comparing ----------------------------------------------------------------------------


def exact(value):
    """Converts integers that JavaScript has not to what it reads instead."""
    if isinstance(value, dict):
        return {name: exact(member) for name, member in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT:
        return float(value)
    return value


def matching(where, found, wanted):
    """Yields differences; `...` in what is wanted stands for any value."""
    if wanted is ...:
        return
    if isinstance(wanted, dict) and isinstance(found, dict) and wanted.keys() == found.keys():
        for name in wanted:
            yield from matching(f"{where}.{name}", found[name], wanted[name])
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for at, (one, other) in enumerate(zip(found, wanted)):
            yield from matching(f"{where}[{at}]", one, other)
    elif found != wanted:
        yield f"{where}: {json.dumps(found, default=str)[:300]} instead of {json.dumps(wanted, default=str)[:300]}"


differences = matching


def package_differences(rows, library):
    yield from matching("", exact(rows), exact(library))


def page_differences(rows, library):
    # A page opens a session by its address. A path may name several sessions, or a log that does not exist yet.
    opened = library["opened"].items()
    opened = {path: ... if "error" in session else session for path, session in opened}
    yield from matching("", rows, {**library, "opened": opened})


SURFACES = {"program": program_differences, "tools": tool_differences, "pages": page_differences,
            "python": package_differences, "node": package_differences}


def changed(rows, library):
    """Yields copies of rows with one value changed: a title, a count, a text of a message."""
    read = [path for path, session in library["opened"].items() if "error" not in session]

    def change(value):
        return value + "x" if isinstance(value, str) else (value or 0) + 1

    for path in [("sessions", 0, "messages"), ("sessions", 0, "id"), ("opened",), ("shown",), ("cost", "total"),
                 ("outlines",)]:
        copied = copy.deepcopy(rows)
        at = copied
        try:
            for name in path[:-1]:
                at = at[name]
            if path == ("opened",):
                opened = at["opened"][read[0]]
                opened["messages"][0]["blocks"][0]["text"] += "x"
            elif path == ("shown",):
                entries = at["shown"][read[0]]["entries"]
                next(it for it in entries if it["kind"] == "message")["blocks"][0]["text"] += "x"
            elif path == ("outlines",):
                at["outlines"][read[0]]["branches"][0]["messages"] += 1
            elif path == ("cost", "total"):
                at["total"]["cost_usd"] = change(at["total"]["cost_usd"])
            else:
                at[path[-1]] = change(at[path[-1]])
        except (KeyError, IndexError, StopIteration, TypeError):
            continue
        yield ".".join(map(str, path)), copied


def main():
    given = arguments()
    wrong = 0
    noticed = {}
    with tempfile.TemporaryDirectory() as folder:
        env = {"PATH": os.environ["PATH"], "HOME": folder, "ANNALS_STATE_DIR": f"{folder}/state", "TZ": "UTC"}
        state = f"{folder}/state"
        roots = given.fixtures or [*all_fixtures(), *recorded_cases(Path(folder))]
        library = documents([given.rows, state, *roots], env)
        packages = {}
        if given.python:
            packages["python"] = documents([given.python, "-B", HERE / "rows.py", state, *roots], env)
        if given.node:
            packages["node"] = documents(["node", HERE / "rows.mjs", given.node, state, *roots], env)
        sessions = 0
        for at, (root, ours) in enumerate(zip(roots, library, strict=True)):
            sessions += len(ours["sessions"])
            shown = {"program": program_rows(given.annals, root, ours["sessions"], env),
                     "tools": tool_rows(given.annals, root, ours["sessions"], env),
                     "pages": page_rows(given.annals, root, env)}
            shown |= {name: found[at] for name, found in packages.items()}
            for surface, rows in shown.items():
                found = list(SURFACES[surface](rows, ours))
                wrong += len(found)
                for one in found[:5]:
                    print(f"DIFFERS {surface} {root}: {one}")
                if not found:
                    for name, copied in changed(rows, ours):
                        counts = noticed.setdefault((surface, name), [0, 0])
                        counts[0] += 1
                        counts[1] += bool(list(SURFACES[surface](copied, ours)))
    for (surface, name), (made, seen) in sorted(noticed.items()):
        if made != seen:
            wrong += 1
            print(f"UNNOTICED {surface}: {made - seen} of {made} changes of {name}")
    for surface in sorted(set(SURFACES) - {name for name, _ in noticed}):
        print(f"not compared: {surface}")
    made = sum(made for made, _ in noticed.values())
    print(f"{len(roots)} roots, {sessions} sessions: " + ("equal" if not wrong else f"{wrong} differences")
          + f"; {made} changes as a control")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
