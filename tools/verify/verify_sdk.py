#!/usr/bin/env python3
"""Compares annals with the session functions of the Python package claude-agent-sdk.

For a copy of every fixture root: the same sessions, the same titles where both define one, the same
messages. Then each writes what the other must read: titles, tags, forks, deletions.

    verify_sdk.py                          everything
    verify_sdk.py --fixture compaction     one root; may be repeated
    verify_sdk.py --write docs/SDK.md      also writes the results as a page

A difference that follows from two stated rules is `expected` and is printed with its reason; any
other is `differs`. Installs the package into a virtual environment in the user's cache folder on
first use. Exit codes: 0 nothing differs unexpectedly, 1 something does, 2 could not run.
"""
import argparse
import contextlib
import datetime
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from annals_cli import REPOSITORY, Annals, AnnalsError, find_annals  # noqa: E402

PACKAGE, VERSION = "claude-agent-sdk", "0.2.182"
FIXTURES = REPOSITORY / "fixtures" / "claude-code"
BOM = b"\xef\xbb\xbf"
TITLE_CUT = 40

# Reasons for expected differences. The key is printed; the text is written to the page.
REASONS = {
    "empty file": "The SDK skips logs of 0 bytes; annals lists them as empty sessions.",
    "no log": "The session's log is gone and only a sub-agent's is left: annals lists what there is, the SDK does not see it.",
    "lone surrogate": "Half of a surrogate pair cannot be printed: annals shows U+FFFD, Python keeps the half.",
    "side chain first": "The SDK takes a log whose first line has isSidechain for a sub-agent's and skips it; "
                        "annals judges by the file's name.",
    "nothing to show": "The SDK skips a log in which its 64 KB windows hold no title, last prompt, summary or prompt; "
                       "annals lists it.",
    "listed once": "The SDK lists a session id once, from the newest file; annals lists each log.",
    "last prompt": "Without a custom or AI title the SDK shows the newest `lastPrompt`; annals shows the summary of the "
                   "conversation or its first prompt.",
    "summary of another leaf": "The SDK takes the last `summary` text in the file's last 64 KB whatever leaf it names; "
                               "annals takes it only for the conversation that holds the leaf.",
    "summary from another file": "annals takes a summary from any file that names this conversation's leaf; the SDK reads "
                                 "one file.",
    "API error as summary": "annals discards summaries that are API errors.",
    "not a human prompt": "The SDK's first prompt is text that annals does not count as typed by a person (command, "
                          "caveat, reminder), or lies on a side chain.",
    "shortened": "The SDK cuts the first prompt at 200 characters, annals at %d." % TITLE_CUT,
    "before the compaction": "The SDK begins at the last compaction; annals shows the whole conversation.",
    "last-prompt leaf": "annals follows the `last-prompt` line as the client does; the SDK takes the last leaf in the file.",
    "meta or side chain": "The SDK leaves out entries marked isMeta, isSidechain or teamName; annals shows them as what "
                          "they are.",
    "nested summary": "The SDK finds the characters `\"summary\":\"` anywhere in the file's last 64 KB, also inside other "
                      "fields; annals reads `summary` lines.",
    "byte order mark": "The SDK cannot parse a first line behind a byte order mark and skips it; annals reads it.",
    "gap bridged": "The SDK ends a chain at an entry of an unknown type or a damaged line; annals walks through what it "
                   "can read or salvage.",
    "duplicate id": "Two lines have one id: the SDK begins at the leaf below them, the client (and annals with it) may "
                    "begin at the later line itself.",
    "not UTF-8": "The SDK raises on a log that is not valid UTF-8; annals reads it.",
    "too deep": "The SDK raises on a line that is nested deeper than Python's JSON parser goes; annals reads it.",
}


# --- the SDK ----------------------------------------------------------------------------------------


def enter_sdk(version):
    """Imports the package, or restarts this script in an environment that has it."""
    with contextlib.suppress(ImportError):
        sdk = importlib.import_module("claude_agent_sdk")
        if sdk.__version__ == version:
            return sdk
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "annals-verify" / ("sdk-" + version)
    python = cache / "bin" / "python"
    if Path(sys.prefix).resolve() == cache.resolve():
        raise AnnalsError("%s %s is not in %s" % (PACKAGE, version, cache))
    if not python.exists():
        print("installing %s %s into %s" % (PACKAGE, version, cache), file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(cache)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                    "%s==%s" % (PACKAGE, version)], check=True)
    os.execv(str(python), [str(python), "-B", *sys.argv])
    return None


# --- what a log says, read independently of both ------------------------------------------------------


class Facts:
    """Facts from the lines of one log, for judging differences; damaged lines are skipped."""

    def __init__(self, path):
        self.data = path.read_bytes()
        self.lines = []
        for raw in self.data.decode("utf-8", "replace").lstrip("\ufeff").split("\n"):
            with contextlib.suppress(ValueError, RecursionError):
                value = json.loads(raw)
                if isinstance(value, dict):
                    self.lines.append(value)
        self.by_uuid = {line["uuid"]: line for line in self.lines if isinstance(line.get("uuid"), str)}
        self.duplicates = len([1 for line in self.lines if isinstance(line.get("uuid"), str)]) > len(self.by_uuid)
        self.summaries = {line.get("summary"): line.get("leafUuid") for line in self.lines
                          if line.get("type") == "summary"}

    def last(self, key):
        """Returns the last text under a key of any line."""
        values = [line[key] for line in self.lines if isinstance(line.get(key), str)]
        return values[-1] if values else None

    def prompts(self):
        """Returns every text of a user line with its line, in file order."""
        for line in self.lines:
            message = line.get("message")
            if line.get("type") != "user" or not isinstance(message, dict):
                continue
            content = message.get("content")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
            for block in blocks:
                if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
                    yield block["text"], line


NOT_TYPED = ("<command-name>", "<command-message>", "<command-args>", "<local-command-stdout>", "Caveat:",
             "<system-reminder>", "<ide_opened_file>", "<task-notification>", "<local-command-caveat>")


def is_typed(text, line):
    """Returns whether a person typed a prompt, by the rule of the layout."""
    return bool(text.strip()) and not text.lstrip().startswith(NOT_TYPED) and not line.get("isMeta") \
        and not line.get("isSidechain") and not line.get("isCompactSummary")


def plain(title):
    """Normalizes a title for comparison: no control or direction characters, single blanks."""
    title = re.sub(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufffd]", "", title or "")
    return " ".join(title.split())


def is_cut_of(title, whole):
    """Returns whether a title is a text or a prefix of it with an ellipsis."""
    title, whole = plain(title), plain(whole)
    return title == whole or (title.endswith("\u2026") and whole.startswith(title[:-1].rstrip()))


# --- comparing one root -------------------------------------------------------------------------------


class Report:
    """The results: (fixture, check, session) -> verdict."""

    def __init__(self):
        self.rows = []

    def add(self, fixture, check, session, verdict, detail=""):
        """Records one comparison: verdict is ok, expected or differs."""
        self.rows.append({"fixture": fixture, "check": check, "session": session, "verdict": verdict, "detail": detail})

    def compare(self, fixture, check, session, same, reason, detail):
        """Records ok if both are equal, expected if there is a reason, else differs."""
        verdict = "ok" if same else "expected" if reason else "differs"
        self.add(fixture, check, session, verdict, "" if same else reason or detail)


def compare_root(sdk, annals, fixture, report):
    """Compares listing, titles and messages of one root."""
    logs = {path.stem: path for path in sorted(annals.root.glob("projects/*/*.jsonl"))
            if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", path.stem)}
    theirs = {info.session_id: info for info in sdk.list_sessions()}
    ours = {}
    for session in annals.sessions():
        ours.setdefault(session["id"], []).append(session)
    for session in sorted(set(theirs) | set(ours) | set(logs)):
        facts = Facts(logs[session]) if session in logs else None
        reason = absent_reason(facts) if session in ours and session not in theirs else None
        report.compare(fixture, "listed", session, session in ours and session in theirs, reason,
                       "annals %s, SDK %s" % (session in ours, session in theirs))
        if session not in ours or session not in theirs or facts is None:
            continue
        if len(ours[session]) > 1:
            report.add(fixture, "listed", session, "expected", "listed once")
            continue
        compare_title(fixture, session, theirs[session], ours[session][0], facts, report)
        compare_messages(sdk, annals, fixture, session, facts, report)


def absent_reason(facts):
    """Returns why the SDK does not list a log that annals lists."""
    if facts is None:
        return "no log"
    if not facts.data:
        return "empty file"
    if b'"isSidechain":true' in facts.data.split(b"\n", 1)[0]:
        return "side chain first"
    shown = [facts.last(key) for key in ("customTitle", "aiTitle", "lastPrompt", "summary")]
    if not any(shown) and not any(text.strip() for text, line in facts.prompts() if not line.get("isMeta")):
        return "nothing to show"
    return None


def compare_title(fixture, session, theirs, ours, facts, report):
    """Compares the titles; the SDK's custom_title covers AI titles too."""
    title = ours.get("title") or ""
    same = is_cut_of(title, theirs.summary)
    reason = None
    typed = next((text for text, line in facts.prompts() if is_typed(text, line)), None)
    if same and plain(title) != plain(theirs.summary):
        report.add(fixture, "title", session, "expected", "shortened")
        return
    if not same and not theirs.custom_title:
        if facts.data.startswith(BOM):
            reason = "byte order mark"
        elif title == re.sub("[\ud800-\udfff]", "\ufffd", theirs.summary):
            reason = "lone surrogate"
        elif theirs.summary == facts.last("lastPrompt"):
            reason = "last prompt"
        elif re.match(r'API Error: \d+ \{"type":"error"', theirs.summary):
            reason = "API error as summary"
        elif theirs.summary in facts.summaries and facts.summaries[theirs.summary] not in facts.by_uuid:
            reason = "summary of another leaf"
        elif len(facts.summaries) > 1 and theirs.summary in facts.summaries:
            reason = "summary of another leaf"
        elif theirs.summary != theirs.first_prompt and theirs.summary not in facts.summaries:
            reason = "nested summary"
        elif theirs.summary == theirs.first_prompt and title in other_summaries(facts, ours):
            reason = "summary from another file"
        elif typed is None or (is_cut_of(title, typed) and not is_cut_of(typed, theirs.summary)):
            reason = "not a human prompt"
    report.compare(fixture, "title", session, same, reason, "annals %r, SDK %r" % (title, theirs.summary))


def other_summaries(facts, ours):
    """Returns summaries, in other logs of the project, of a leaf of this log."""
    found = set()
    for path in Path(ours["file"]).parent.glob("*.jsonl"):
        found.update(text for text, leaf in Facts(path).summaries.items() if leaf in facts.by_uuid)
    return found


def shown_messages(annals, session):
    """Returns the ids of the messages that annals shows by default."""
    return [entry["id"] for entry in annals.show(session)["entries"]
            if entry.get("role") in ("user", "assistant") and not entry.get("agent_id")]


def compare_messages(sdk, annals, fixture, session, facts, report):
    """Compares the uuids of the conversation; additional messages of annals need a reason."""
    try:
        theirs = [message.uuid for message in sdk.get_session_messages(session)]
    except UnicodeDecodeError:
        report.add(fixture, "messages", session, "expected", "not UTF-8")
        return
    except RecursionError:
        report.add(fixture, "messages", session, "expected", "too deep")
        return
    ours = shown_messages(annals, session)
    if ours == theirs:
        report.add(fixture, "messages", session, "ok")
        return
    reason = message_reason(ours, theirs, facts)
    report.compare(fixture, "messages", session, False, reason, "annals %d messages, SDK %d; only annals: %s; only SDK: %s" % (
        len(ours), len(theirs), [u[:8] for u in ours if u not in theirs][:5], [u[:8] for u in theirs if u not in ours][:5]))


def message_reason(ours, theirs, facts):
    """Returns why two lists of messages of one session may differ."""
    extra = [uuid for uuid in ours if uuid not in theirs]
    hidden = [uuid for uuid in extra if any(facts.by_uuid.get(uuid, {}).get(key)
                                            for key in ("isMeta", "isSidechain", "teamName"))]
    if [uuid for uuid in ours if uuid in theirs] == theirs:
        if extra == hidden:
            return "meta or side chain"
        rest = [uuid for uuid in ours if uuid not in hidden]
        if rest[len(rest) - len(theirs):] == theirs:
            if any(line.get("subtype") == "compact_boundary" for line in facts.lines):
                return "before the compaction"
            return "byte order mark" if facts.data.startswith(BOM) else "gap bridged"
        if any(uuid not in facts.by_uuid for uuid in extra):
            return "gap bridged"
    if facts.duplicates:
        return "duplicate id"
    if facts.last("leafUuid") and any(line.get("type") == "last-prompt" for line in facts.lines):
        return "last-prompt leaf"
    return None


# --- what one writes, the other reads -------------------------------------------------------------------


def texts(sdk, session):
    """Returns roles and contents of a session as the SDK reads it."""
    return [(message.type, message.message["content"]) for message in sdk.get_session_messages(session)]


def shown_texts(annals, session):
    """Returns roles and joined texts of a session as annals reads it."""
    return [(entry["role"], "".join(block.get("text") or "" for block in entry["blocks"]))
            for entry in annals.show(session)["entries"] if entry.get("role") in ("user", "assistant")]


def cross_write(sdk, annals, report):
    """Compares titles, tags, forks and deletions written by one and read by the other."""
    def check(name, same, detail=""):
        report.add("(written)", name, "", "ok" if same else "differs", "" if same else detail)

    work = annals.root.parent / "work"
    work.mkdir()
    session, _ = annals.new(work, "Title by annals")
    middle = annals.append(session, {"role": "user", "content": "question 1"},
                           {"role": "assistant", "content": "answer 1", "model": "claude-sonnet-4-5-20250929"})[-1]
    annals.append(session, {"role": "user", "content": "question 2"},
                  {"role": "assistant", "content": "answer 2", "model": "claude-sonnet-4-5-20250929"})

    info = sdk.get_session_info(session)
    check("SDK lists annals' session", info is not None)
    check("SDK finds it by directory", any(found.session_id == session for found in sdk.list_sessions(str(work))),
          "the project folder's name differs")
    check("SDK reads annals' title of new", info and info.custom_title == "Title by annals", repr(info))
    check("SDK reads annals' cwd", info and info.cwd == os.path.realpath(work), repr(info and info.cwd))
    check("SDK reads annals' messages", [role for role, _ in texts(sdk, session)] == ["user", "assistant"] * 2)

    annals.run("title", session, "Retitled by annals: \u00e9 \"quoted\" \\ back")
    read = sdk.get_session_info(session).custom_title
    check("SDK reads annals' title", read == "Retitled by annals: \u00e9 \"quoted\" \\ back", repr(read))
    annals.run("tag", session, "by-annals")
    check("SDK reads annals' tag", sdk.get_session_info(session).tag == "by-annals", repr(sdk.get_session_info(session).tag))

    sdk.rename_session(session, "Retitled by the SDK: \u00e9 \U0001F600")
    (ours,) = [found for found in annals.sessions() if found["id"] == session]
    check("annals reads the SDK's title", ours["title"] == "Retitled by the SDK: \u00e9 \U0001F600", repr(ours["title"]))
    sdk.tag_session(session, "by-sdk")
    shown = annals.show(session)
    (ours,) = [found for found in annals.sessions() if found["id"] == session]
    check("annals reads the SDK's tag", "by-sdk" in json.dumps([shown, ours]), "no tag in sessions or show --json")

    fork = sdk.fork_session(session, up_to_message_id=middle, title="Fork by the SDK").session_id
    check("annals reads the SDK's fork", shown_texts(annals, fork) == [("user", "question 1"), ("assistant", "answer 1")],
          repr(shown_texts(annals, fork)))
    (ours,) = [found for found in annals.sessions() if found["id"] == fork]
    check("annals reads the title of the SDK's fork", ours["title"] == "Fork by the SDK", repr(ours["title"]))
    fork, _ = annals.fork(session, middle, "Fork by annals")
    check("SDK reads annals' fork", texts(sdk, fork) == texts(sdk, session)[:2], repr(texts(sdk, fork)))
    check("SDK reads the title of annals' fork", sdk.get_session_info(fork).custom_title == "Fork by annals",
          repr(sdk.get_session_info(fork)))
    again = sdk.fork_session(fork).session_id
    check("SDK forks annals' fork", [role for role, _ in texts(sdk, again)] == ["user", "assistant"])

    sdk.delete_session(again)
    check("annals misses what the SDK deleted", again not in {found["id"] for found in annals.sessions()})
    annals.run("delete", fork, "--apply")
    check("SDK misses what annals deleted", sdk.get_session_info(fork) is None)


# --- the program ------------------------------------------------------------------------------------------


def run(sdk, command, fixtures):
    """Compares every fixture root in its own copy, then tests writing in both directions."""
    report = Report()
    for fixture in fixtures + [None]:
        with tempfile.TemporaryDirectory(prefix="verify-sdk-") as scratch:
            root = Path(scratch, "root")
            if fixture:
                shutil.copytree(FIXTURES / fixture, root)
            else:
                (root / "projects").mkdir(parents=True)
            os.environ["CLAUDE_CONFIG_DIR"] = str(root)
            try:
                if fixture:
                    compare_root(sdk, Annals(command, root), fixture, report)
                else:
                    cross_write(sdk, Annals(command, root), report)
            except (AnnalsError, KeyError, ValueError, TypeError, OSError, AttributeError) as error:
                report.add(fixture or "(written)", "run", "", "differs", "%s: %s" % (type(error).__name__, error))
    return report


def counted(report):
    """Counts verdicts per check, in order."""
    counts = {}
    for row in report.rows:
        name = row["check"] if row["fixture"] != "(written)" else "written by one, read by the other"
        counts.setdefault(name, {"ok": 0, "expected": 0, "differs": 0})[row["verdict"]] += 1
    return counts


def page(report, sdk_version, annals_version, fixtures):
    """Formats the results as a page of documentation."""
    rows = ["| check | ok | expected difference | differs |", "|---|---|---|---|"]
    rows += ["| %s | %d | %d | %d |" % (name, count["ok"], count["expected"], count["differs"])
             for name, count in counted(report).items()]
    used = {}
    for row in report.rows:
        if row["verdict"] == "expected":
            used.setdefault(row["detail"], set()).add(row["fixture"])
    reasons = ["- **%s** (%s). %s" % (reason, ", ".join("`%s`" % name for name in sorted(where)), REASONS[reason])
               for reason, where in sorted(used.items())]
    failures = ["- `%(fixture)s` %(check)s %(session)s: %(detail)s" % row for row in report.rows
                if row["verdict"] == "differs"]
    return """# annals and the Python package claude-agent-sdk

Outcome of `python3 tools/verify/verify_sdk.py --write docs/SDK.md` on %s with %s and
%s %s over %d fixture roots. The package is installed into a virtual environment of its own; nothing of
your own `~/.claude` is read or written.

%s

## Differences that follow from the rules of each

%s
%s""" % (datetime.date.today().isoformat(), annals_version, PACKAGE, sdk_version, fixtures, "\n".join(rows),
         "\n".join(reasons) or "None.", "\n## Differences without a reason\n\n%s\n" % "\n".join(failures) if failures else "")


def parse_arguments():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annals", help="the program; default: target/release/annals, built if missing")
    parser.add_argument("--fixture", action="append", help="only this root; may be repeated")
    parser.add_argument("--sdk-version", default=VERSION, help="version of the package; default %(default)s")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--write", metavar="FILE", help="write the outcome as a Markdown page")
    parser.add_argument("-v", "--verbose", action="store_true", help="print expected differences too")
    return parser.parse_args()


def main():
    """Runs the comparison, prints the results, returns the exit code."""
    arguments = parse_arguments()
    fixtures = arguments.fixture or sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())
    try:
        command = find_annals(arguments.annals)
        sdk = enter_sdk(arguments.sdk_version)
        version = Annals(command, ".").run("--version").strip()
    except (AnnalsError, OSError, subprocess.CalledProcessError) as error:
        print("verify_sdk: %s" % error, file=sys.stderr)
        return 2
    report = run(sdk, command, fixtures)
    failed = any(row["verdict"] == "differs" for row in report.rows)
    if arguments.json:
        print(json.dumps({"ok": not failed, "annals": version, "sdk": sdk.__version__, "rows": report.rows},
                         indent=1, ensure_ascii=False))
    else:
        for row in report.rows:
            if row["verdict"] == "differs" or (arguments.verbose and row["verdict"] == "expected"):
                print("%(verdict)-8s  %(fixture)s  %(check)s  %(session)s  %(detail)s" % row)
        print("%-36s %6s %9s %8s" % ("check", "ok", "expected", "differs"))
        for name, count in counted(report).items():
            print("%-36s %6d %9d %8d" % (name, count["ok"], count["expected"], count["differs"]))
    if arguments.write:
        Path(arguments.write).parent.mkdir(parents=True, exist_ok=True)
        Path(arguments.write).write_text(page(report, sdk.__version__, version, len(fixtures)), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
