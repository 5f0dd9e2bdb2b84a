#!/usr/bin/env python3
"""Checks that real agent programs resume what annals wrote, with exactly the intended messages.

Sessions are made, appended to, forked, repaired, removed, archived, brought back and converted by annals, and
each is resumed by the program itself, offline (tools/agent-oracle); `annals resume` starts it, and a Claude Code
session goes on in it and back (tools/resume-oracle). What it sends must be what `annals show` prints.

    python3 tools/verify/verify_agents.py                                    # all programs and versions
    python3 tools/verify/verify_agents.py --agent pi --case append           # some of them
    python3 tools/verify/verify_agents.py --write docs/AGENTS-VERIFIED.md

Needs npm, and the registry once per version. Exit codes: 0 all as expected, 1 something differs, 2
could not run."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "agent-oracle"))
sys.path.insert(0, str(HERE.parent / "resume-oracle"))

import resume_oracle  # noqa: E402
from agent_oracle import AGENTS, OracleError, ask, npm, without_noise  # noqa: E402
from annals_cli import REPOSITORY, Annals, AnnalsError, find_annals  # noqa: E402

FIXTURES = REPOSITORY / "fixtures"
WORK = "/home/dev/work"

# Program: its versions, its root within the folder that the oracle takes.
PROGRAMS = {
    "codex": (["0.166.0", "0.80.0"], ""),
    "pi": (["0.87.1", "0.73.1"], "agent"),
    "qwen": (["0.24.4"], ""),
    "gemini": (["0.61.0"], ""),
    "copilot": (["1.0.102"], ""),
    "opencode": (["1.18.33"], ""),
}
# Programs whose sessions are in a database, which annals does not create.
IN_DATABASE = {"opencode"}
# Older package names.
PACKAGES = {("pi", "0.73.1"): ("pi-0.73.1", "@mariozechner/pi-coding-agent@0.73.1", "pi")}
# Recorded stores of each program, by version.
RECORDED = {
    ("codex", "0.166.0"): ["0.166-s02-tools", "0.166-s12-tui"],
    ("codex", "0.80.0"): ["0.80-s01-qa", "0.80-s09-unicode"],
    ("pi", "0.87.1"): ["0.87-s02-tools", "0.87-s05-compact", "made-branches"],
    ("pi", "0.73.1"): ["0.73-s01-qa", "0.73-s06-interrupt"],
    ("qwen", "0.24.4"): ["0.24-s02-tools", "0.24-s06-interrupt"],
    ("gemini", "0.61.0"): ["patches-tools", "patches-rewind", "patches-resume"],
    ("copilot", "1.0.102"): ["1.0-s01-qa", "1.0-s04-subagent", "1.0-s09-unicode"],
    ("opencode", "1.18.33"): ["1.18-s02-tools", "1.18-s05-compact", "1.18-s08-errors"],
}
# Recorded stores of which annals writes only forks: documents of older versions.
FORKED = {("gemini", "0.61.0"): ["document-qa"]}
# Roots to convert from: layout, fixture. Their sessions ran in WORK.
SOURCES = [
    ("gemini", "document-qa"), ("gemini", "patches-tools"), ("gemini", "patches-rewind"),
    ("opencode", "1.18-s02-tools"), ("opencode", "1.18-s05-compact"),
    ("codex", "0.80-s01-qa"), ("codex", "0.166-s02-tools"), ("codex", "0.166-s05-compact"), ("codex", "made-rollback"),
    ("pi", "0.73-s01-qa"), ("pi", "0.87-s02-tools"), ("pi", "0.87-s05-compact"), ("pi", "made-branches"),
    ("qwen", "0.24-s02-tools"), ("qwen", "0.24-s06-interrupt"),
    ("copilot", "1.0-s01-qa"), ("copilot", "1.0-s04-subagent"),
]
# Layouts in which a session is made and then converted.
MADE = ["claude-code", "chorus", "clog", "orchestrator", "codex", "pi", "qwen", "gemini", "copilot"]
# The layout of sessions that go on in another program, and back.
CLAUDE = "claude-code"
# Programs that send each result of their own sessions twice: the source is what annals shows.
REPEATS = ["gemini"]

# Conversions that are known to send something else than the source's program, and why.
KNOWN = {
    ("opencode", "1.18-s05-compact"): "OpenCode sends a prompt of its own before the summary",
}

SCRIPT = [
    {"role": "user", "content": "Read notes.txt, please"},
    {"role": "assistant", "model": "claude-sonnet-4-5", "content": [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "I read it."},
        {"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": {"command": "cat notes.txt"}},
        {"type": "tool_use", "id": "toolu_02", "name": "Bash", "input": {"command": "ls \"é\"\n"}}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_01", "content": "alpha\nbeta"},
        {"type": "tool_result", "tool_use_id": "toolu_02", "content": "no such file", "is_error": True}]},
    {"role": "assistant", "model": "claude-sonnet-4-5", "content": "It has two lines: 日本 🚀."},
    {"role": "user", "content": "Thanks. \"Quotes\", \\ and\nline breaks?"},
    {"role": "assistant", "model": "claude-sonnet-4-5", "content": "Fine."},
]
MORE = [
    {"role": "user", "content": "One more question"},
    {"role": "assistant", "model": "claude-sonnet-4-5", "content": [
        {"type": "text", "text": "One moment."},
        {"type": "tool_use", "id": "toolu_09", "name": "Bash", "input": {"command": "true"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_09", "content": "done"}]},
    {"role": "assistant", "model": "claude-sonnet-4-5", "content": "The answer."},
]


def canonical(messages):
    """Returns comparable messages: without reasoning, texts of one role joined, calls as JSON."""
    found = []
    for role, kind, text in messages or []:
        # The private home directory, and what pi and Copilot put around a summary.
        text = re.sub(r"/tmp/agent-oracle-\w+/home", "/home/dev", without_noise(text))
        text = re.sub(r"The conversation history before this point was compacted into the following summary:\s*<summary>(.*?)</summary>", r"\1", text, flags=re.S)
        text = re.sub(r"Some of the conversation history has been summarized to free up context\..*<summary>\s*(.*?)\s*</summary>", r"\1", text, flags=re.S)
        if kind == "think" or (kind == "text" and not text):
            continue
        if kind == "call":
            name, _, given = text.partition(" ")
            try:
                text = name + " " + json.dumps(json.loads(given), sort_keys=True)
            except ValueError:
                pass
        if kind == "result":
            try:
                # Gemini's API has the text in an object.
                given = json.loads(text)
                if isinstance(given, dict) and list(given) in (["output"], ["error"]):
                    text = str(given[list(given)[0]])
            except ValueError:
                pass
        if kind == "text" and found and found[-1][:2] == [role, kind]:
            found[-1][2] += "\n" + text
            continue
        found.append([role, kind, text])
    return [[role, kind, re.sub(r"\s+", " ", text).strip()] for role, kind, text in found]


def shown(annals, session):
    """Returns the messages that the program must send: those that annals shows, from the last
    compaction on."""
    entries = annals.json("show", session, "--full")["entries"]
    messages, summary = [], False
    for entry in entries:
        if entry["kind"] == "compaction":
            messages, summary = [], True
        if entry["kind"] != "message" or entry.get("role") not in ("user", "assistant") or entry.get("api_error"):
            continue
        # The programs send a summary in the user's name.
        role, summary = "user" if summary else entry["role"], False
        for block in entry["blocks"]:
            kind = block["kind"]
            if kind == "text":
                messages.append([role, "text", block["text"]])
            elif kind == "tool_use":
                messages.append(["assistant", "call", "%s %s" % (block["name"], json.dumps(block["input"]))])
            elif kind == "tool_result":
                texts = [part.get("text", "") for part in block["output"]]
                messages.append(["tool", "result", "\n".join(texts)])
    return messages


class Case:
    """One store of a program, written by annals."""

    def __init__(self, agent, version, command, folder):
        self.agent, self.version, self.command = agent, version, command
        self.store = folder / "store"
        self.folder = folder
        self.root = self.store / PROGRAMS[agent][1]
        self.root.mkdir(parents=True)
        if agent in IN_DATABASE:
            self.recorded(RECORDED[agent, version][0])
        os.environ["ANNALS_STATE_DIR"] = str(folder / "state")
        self.annals = Annals(command, self.root, agent)

    def recorded(self, name):
        shutil.rmtree(self.root)
        shutil.copytree(FIXTURES / self.agent / name, self.root)
        for path in self.root.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)

    def sessions(self):
        """Returns all sessions, the newest first."""
        return [found["id"] for found in self.annals.json("sessions")["sessions"]]

    def sessions_on_disk(self):
        """Returns all sessions that are not archived only."""
        return [found["id"] for found in self.annals.json("sessions")["sessions"] if not found.get("archived")]

    def session(self):
        """Returns the newest session."""
        return self.sessions()[0]

    def resumed(self, session=None, cwd="work"):
        # Under load, Qwen Code may fail to find a session that is there.
        for _ in range(3):
            answer = ask(self.agent, self.store, session, self.version, cwd)
            if answer["messages"]:
                return answer["messages"]
        return [["-", "-", answer["stderr"][-300:]]]

    def log(self, session):
        return Path(self.annals.json("show", session, "--last", "1")["session"]["file"])


def append(annals, session, messages):
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    annals.run("append", session, stdin=lines)


def new(annals, cwd=WORK):
    session, _ = annals.new(cwd)
    append(annals, session, SCRIPT)
    return session


def case_new(case):
    session = new(case.annals)
    yield "new", session, shown(case.annals, session)


def case_append(case):
    for name in RECORDED[case.agent, case.version]:
        case.recorded(name)
        session = case.session()
        before = case.resumed(session)
        append(case.annals, session, MORE)
        added = [["user", "text", "One more question"], ["assistant", "text", "One moment."],
                 ["assistant", "call", "Bash {\"command\":\"true\"}"], ["tool", "result", "done"], ["assistant", "text", "The answer."]]
        yield "append to " + name, session, before + added


def case_title(case):
    for name in RECORDED[case.agent, case.version][:1]:
        case.recorded(name)
        session = case.session()
        before = case.resumed(session)
        case.annals.run("title", session, "Another title")
        case.annals.run("tag", session, "important")
        case.annals.run("notes", "add", session, "a note")
        yield "title, tag and note on " + name, session, before


def case_fork(case):
    for name in RECORDED[case.agent, case.version] + FORKED.get((case.agent, case.version), []):
        case.recorded(name)
        session = case.session()
        before = case.resumed(session)
        fork = case.annals.json("fork", session)["session"]
        yield "fork of " + name, fork, before
    session = new(case.annals)
    prompt = [entry for entry in case.annals.json("show", session)["entries"] if entry.get("human")][-1]["id"]
    fork = case.annals.json("fork", "%s@%s" % (session, prompt))["session"]
    yield "fork at a prompt", fork, shown(case.annals, session)[:-1]


def case_agent(case):
    """A sub-agent does not change what its session sends."""
    if case.agent in IN_DATABASE:
        case.recorded(RECORDED[case.agent, case.version][0])
    session = new(case.annals)
    wanted = shown(case.annals, session)
    agent = "ses_verifyagents01" if case.agent in IN_DATABASE else "0199d6a0-0000-7000-8000-0000000000aa"
    lines = "".join(json.dumps(message) + "\n" for message in MORE)
    case.annals.run("append", session, "--agent", agent, "--kind", "general", "--description", "count lines", stdin=lines)
    yield "a new sub-agent", session, wanted


def case_restore(case):
    """A session that was removed or archived, and brought back."""
    if case.agent in IN_DATABASE:
        return
    for name in RECORDED[case.agent, case.version][:1]:
        case.recorded(name)
        session = case.session()
        before = case.resumed(session)
        for remove, restore, title in (
                (["delete", session, "--apply"], ["delete", "--undo", session], "deleted and undeleted"),
                (["archive", session, "--apply"], ["restore", session, "--apply"], "archived and restored")):
            case.annals.run(*remove)
            if session in case.sessions_on_disk():
                raise AnnalsError("%s is still there after %s" % (session, remove[0]))
            case.annals.run(*restore)
            yield "%s: %s" % (title, name), session, before


def case_repair(case):
    if case.agent in IN_DATABASE:
        return
    for name in RECORDED[case.agent, case.version][:1]:
        case.recorded(name)
        session = case.session()
        log = case.log(session)
        torn = log.read_bytes()
        torn = torn[:-40]
        log.write_bytes(torn)
        before = case.resumed(session)
        append(case.annals, session, MORE[:1] + MORE[-1:])
        added = [["user", "text", "One more question"], ["assistant", "text", "The answer."]]
        yield "append after a torn line of " + name, session, before + added
        case.recorded(name)
        log.write_bytes(torn)
        case.annals.run("repair", session, "--apply")
        yield "repair of a torn line of " + name, session, before
        lines = torn.split(b"\n")[:-1]
        glued = b"\n".join(lines[:-1]) + b"\n" + lines[-1][:30] + lines[-1] + b"\n"
        log.write_bytes(b"\n".join(lines) + b"\n")
        whole = case.resumed(session)
        log.write_bytes(glued)
        case.annals.run("repair", session, "--apply")
        yield "repair of two records on one line of " + name, session, whole


def case_compact(case):
    session = new(case.annals)
    case.annals.run("compact", session, "--summary", "what was said")
    append(case.annals, session, MORE)
    wanted = shown(case.annals, session)
    if case.agent in IN_DATABASE:
        # OpenCode sends a prompt of its own before the summary, which is a reply.
        wanted = [["user", "text", "What did we do so far?"], ["assistant", *wanted[0][1:]]] + wanted[1:]
    yield "compaction", session, wanted


def convert(case, source, layout, session=None):
    """Converts a root, or one session of it; returns the session in the target."""
    if case.agent in IN_DATABASE:
        case.recorded(RECORDED[case.agent, case.version][0])
    else:
        shutil.rmtree(case.root)
    before = case.sessions() if case.root.exists() else []
    shutil.copytree(source, case.folder / "source", dirs_exist_ok=True)
    target = "%s:%s" % (layout, case.folder / "source")
    Annals(case.command, case.folder / "source", layout).run("convert", session or target, "--to", case.agent, "--into", str(case.root))
    return [found for found in case.sessions() if found not in before][0]


def plain(role, block):
    """Returns a block of tools/resume-oracle as one of tools/agent-oracle."""
    if block["type"] == "tool_use":
        return ["assistant", "call", "%s %s" % (block["name"], json.dumps(block["input"]))]
    if block["type"] == "tool_result":
        return ["tool", "result", block["text"]]
    return [role, "think" if block["type"] == "thinking" else "text", block["text"]]


class Launch:
    """Starts the program by `annals resume`: a session of its own, or one of Claude Code with `--with`."""

    def __init__(self, case, is_other):
        self.case, self.is_other = case, is_other

    def __call__(self, argv, env, work, target):
        self.root = target / PROGRAMS[self.case.agent][1]
        self.claude = Annals(self.case.command, work.parent / "made", CLAUDE)
        made = self.claude if self.is_other else Annals(self.case.command, self.root, self.case.agent)
        self.session = new(made, str(work))
        self.wanted = shown(made, self.session)
        self.both = made.command + ["--root", "%s:%s" % (CLAUDE, self.claude.root), "--root", "%s:%s" % (self.case.agent, self.root)]
        settings = work.parent / ".config" / "annals"
        settings.mkdir(parents=True)
        lines = ["[resume]", "%s = %s" % (self.case.agent, json.dumps(argv)), 'claude-code = ["true"]']
        (settings / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.env = {**env, "ANNALS_STATE_DIR": str(work.parent / "state")}
        chosen = ["--with", self.case.agent] if self.is_other else []
        return self.both + ["resume", self.session, *chosen], self.env

    def back(self):
        """Converts what the program added back; returns what a real Claude Code sends, and what it must send."""
        log = self.claude.root.joinpath(self.claude.json("show", self.session, "--last", "1")["session"]["file"])
        before = log.read_bytes()
        there = self.run("resume", self.session, "--with", self.case.agent, "--json")
        self.run("resume", json.loads(there)["session"], "--with", CLAUDE)
        if not log.read_bytes().startswith(before):
            raise AnnalsError("%s: the session was changed" % log)
        sent = resume_oracle.ask(log, session_id=self.session)["messages"] or []
        return [plain(message["role"], block) for message in sent for block in message["blocks"]], shown(self.claude, self.session)

    def run(self, *arguments):
        done = subprocess.run(self.both + list(arguments), env=self.env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AnnalsError("annals %s: %s" % (" ".join(arguments), done.stderr))
        return done.stdout


def case_resume(case):
    for is_other in (False, True):
        for _ in range(3):
            launch = Launch(case, is_other)
            answer = ask(case.agent, case.store, "{id}", case.version, keep=True, launch=launch)
            try:
                sent = answer["messages"]
                if sent and is_other:
                    back = launch.back()
            finally:
                shutil.rmtree(answer["kept"], ignore_errors=True)
            if sent:
                break
        sent = sent or [["-", "-", answer["stderr"][-300:]]]
        yield "annals resume" + (" of a Claude Code session" if is_other else ""), None, launch.wanted, sent
        if is_other and answer["messages"]:
            said = "\n".join(text for role, kind, text in back[1] if (role, kind) == ("user", "text"))
            if not said.rstrip().endswith("next"):
                raise AnnalsError("what was said in %s is not in Claude Code: %r" % (case.agent, said[-300:]))
            yield "and back in Claude Code", None, back[1], back[0]


def case_convert(case):
    for layout in MADE:
        if layout == case.agent:
            continue
        folder = case.folder / layout
        session = new(Annals(case.command, folder, layout))
        wanted = shown(Annals(case.command, folder, layout), session)
        shutil.rmtree(case.folder / "source", ignore_errors=True)
        yield "converted from " + layout, convert(case, folder, layout), wanted
    for layout, name in SOURCES:
        if layout == case.agent:
            continue
        source = FIXTURES / layout / name
        reader = Annals(case.command, source, layout)
        for session in sorted(found["id"] for found in reader.json("sessions")["sessions"]):
            if layout in PROGRAMS and layout not in REPEATS:
                # What the program of the source itself would send.
                store = case.folder / "recorded"
                shutil.rmtree(store, ignore_errors=True)
                shutil.copytree(source, store / PROGRAMS[layout][1])
                wanted = ask(layout, store, session, PROGRAMS[layout][0][0])["messages"]
            else:
                wanted = shown(reader, session)
            if not wanted:
                continue
            shutil.rmtree(case.folder / "source", ignore_errors=True)
            yield "converted from %s %s" % (layout, name), convert(case, source, layout, session), wanted


CASES = {"new": case_new, "append": case_append, "title": case_title, "fork": case_fork, "repair": case_repair,
         "restore": case_restore, "compact": case_compact, "agent": case_agent, "convert": case_convert, "resume": case_resume}


def check(agent, version, name, command):
    """Yields (case, problem or None)."""
    with tempfile.TemporaryDirectory(prefix="verify-agents-") as folder:
        case = Case(agent, version, command, Path(folder))
        for title, session, wanted, *given in CASES[name](case):
            got = given[0] if given else case.resumed(session)
            problem = None
            if canonical(got) != canonical(wanted):
                known = [why for key, why in KNOWN.items() if title.endswith("ed from %s %s" % key)]
                problem = {"known": known[0]} if known else {"sent": canonical(got), "expected": canonical(wanted)}
            elif canonical(got) == canonical(wanted[:-1]):
                problem = {"control": "the comparison does not see the last message"}
            yield title, problem


def report(results):
    """Returns the results as Markdown."""
    lines = ["# Verified agent programs", "",
             "Written by `tools/verify/verify_agents.py`, which has each program resume stores that annals wrote, offline. A case passes if",
             "the program sends exactly the messages that annals shows, without reasoning.", "",
             "| program | version | cases | passed | differs |", "|---|---|---|---|---|"]
    for (agent, version), found in results.items():
        failed = [title for title, problem in found if problem]
        lines.append("| %s | %s | %d | %d | %s |" % (agent, version, len(found), len(found) - len(failed), "; ".join(failed) or "none"))
    lines += [""] + ["- converted from %s %s: %s" % (*key, why) for key, why in KNOWN.items()]
    lines += ["", "## Cases", ""]
    titles = []
    for found in results.values():
        titles += [title for title, _ in found if title not in titles]
    versions = list(results)
    lines.append("| case | %s |" % " | ".join("%s %s" % key for key in versions))
    lines.append("|---|%s" % ("---|" * len(versions)))
    for title in titles:
        cells = []
        for key in versions:
            found = [problem for name, problem in results[key] if name == title]
            cells.append("" if not found else "ok" if not any(found) else "differs")
        lines.append("| %s | %s |" % (title, " | ".join(cells)))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annals", help="the program (default: target/release/annals, built if missing)")
    parser.add_argument("--agent", choices=PROGRAMS)
    parser.add_argument("--client", help="only this version")
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--write", type=Path, help="write the outcome to this file")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results = {}
    try:
        command = find_annals(args.annals)
        for package in PACKAGES.values():
            npm(*package)
        for agent, (versions, _) in PROGRAMS.items():
            for version in versions:
                if (args.agent or agent) != agent or (args.client or version) != version:
                    continue
                found = results.setdefault((agent, version), [])
                for name in CASES:
                    if (args.case or name) != name:
                        continue
                    for title, problem in check(agent, version, name, command):
                        found.append((title, problem))
                        print("%s %s: %s: %s" % (agent, version, title, "differs" if problem else "ok"), file=sys.stderr)
                        if problem:
                            print(json.dumps(problem, ensure_ascii=False, indent=1)[:3000], file=sys.stderr)
    except (OracleError, resume_oracle.OracleError, AnnalsError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps({"%s %s" % key: found for key, found in results.items()}, ensure_ascii=False))
    if args.write:
        args.write.write_text(report(results), encoding="utf-8")
    known = sum(bool(problem and "known" in problem) for found in results.values() for _, problem in found)
    failed = sum(bool(problem) for found in results.values() for _, problem in found) - known
    total = sum(len(found) for found in results.values())
    print("%d of %d cases as expected, %d with a known difference" % (total - failed - known, total, known))
    return 1 if failed or not total else 0


assert set(PROGRAMS) <= set(AGENTS)

if __name__ == "__main__":
    sys.exit(main())
