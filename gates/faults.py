"""Gate 12: no failed read is silent. Every call that reads from a root, the archive or annals' own
state fails once, under every verb that reads. Then either the answer is the undisturbed one, or the
program reports the path as an error and exits with 2; the next run gives the undisturbed
answer.

The same for every verb that writes: it ends and leaves files as the undisturbed run does, or it
exits with 2 and names the path. Then a second, undisturbed run produces the intended result, or at
least nothing that existed before is lost.

Answers may not depend on the index, so only a failed read of the index may be silent.
"""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import oracle
import stage
from scripts import SESSION_LISTS
from stage import REPOSITORY, Stage
from table import Row

# Calls that read. Calls that wait, lock or write are not tested here.
CALLS = (
    "access",
    "faccessat",
    "faccessat2",
    "fstat",
    "getdents64",
    "lseek",
    "mmap",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "pread64",
    "preadv",
    "read",
    "readlink",
    "readlinkat",
    "readv",
    "stat",
    "lstat",
    "statx",
)
RELATIVE = {"faccessat", "faccessat2", "newfstatat", "openat", "openat2", "readlinkat", "statx"}
UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Ids of rows of a message, which no one chooses.
NEW_ROW = re.compile(rb"\bprt_\w+")
CALL = re.compile(r"^(\d+)\s+(\w+)\((.*)$")
TRACE = ("strace", "-f", "--seccomp-bpf", "-y", "-qq", "-s", "4096", "-e", "signal=none")
THREADS = 3

# Fixtures that are merged into one small root per layout, to cover every kind of file.
ROOTS = {
    "claude-code": (
        "subagents-every-placement",
        "todos",
        "tasks",
        "history",
        "plans",
        "settings",
        "file-history",
        "tool-results",
        "title-summary-other-file",
        "title-sidecar",
        "glued-records",
    ),
    "chorus": ("chorus-plain",),
    "clog": ("agents-todos-origin", "same-thread-twice", "glued-messages"),
    "orchestrator": ("sub-agent", "notes-and-todos", "across-midnight", "annex"),
    "codex": ("0.166-s03-fork", "made-copied-fork", "made-sub-agent", "made-odd"),
    "pi": ("0.87-s03-tree", "0.87-s11-forkcli", "made-branches", "made-odd"),
    "gemini": ("made-sub-agent", "made-document-tools", "patches-rewind", "made-damage"),
    "qwen": ("made-sub-agent", "0.24-s02-tools", "0.24-s06-interrupt"),
    "copilot": ("1.0-s04-subagent", "1.0-s09-unicode", "made-odd"),
    "opencode": ("1.18-s03-fork", "1.1-s01-qa"),
    "droid": ("0.215-s01-qa", "made-odd"),
    "cline": ("3.0-s01-qa", "made-odd"),
    "aider": ("made-runs",),
}
# Layouts of which annals writes rows of a database, which holds all sessions of its root.
DATABASES = ("opencode",)
# Layouts that annals reads only.
READ_ONLY = ("droid", "cline", "aider")
CHORUS = ("chorus",)
# Layouts whose program can be started with a session.
RESUMED = tuple(name for name in ROOTS if name not in ("chorus", "clog", "orchestrator", "cline", "aider"))


# Sessions of older versions of Gemini CLI and OpenCode, to which annals does not append.
OLDER = re.compile(r"/chats/[^/]*\.json$|/storage/")


@dataclass(frozen=True)
class Verb:
    """A command line. `{id}` is a session in the root, `{kept}` one that, in some situations, is
    only in the archive."""

    words: tuple
    layouts: tuple = tuple(ROOTS)
    # Situations in which it makes sense; all if empty.
    situations: tuple = ()
    # It supports `--json`.
    json: bool = True
    # It writes files below `{base}/out`, which are part of the answer.
    writes: bool = False
    # It changes the root or the state directory, which are restored before each run.
    changes: bool = False
    # Data that it removes is meant to be lost.
    destroys: bool = False
    # It exits with 0 once its input is written, because a retry would write it twice. A session
    # list that it could not update is reported, and the next writer updates it.
    acknowledges: bool = False
    # It answers each line of its input, and the answers are checked.
    answers: bool = False
    # It runs until it is interrupted, which happens once it is idle.
    endless: bool = False
    # It is a server, which reports a failed read in its answer and goes on.
    serves: bool = False

    @property
    def name(self):
        called = re.findall(r'"tools/call", "params": {"name": "(\w+)"', self.words[-1]) if self.serves else []
        return " ".join([word for word in self.words if word[0] != "<"] + called) or "overview"

    def fits(self, layout, situation):
        moves = {"--pinned", "archive", "restore", "delete", "clean", "repair"} & set(self.words)
        if layout in DATABASES and moves and (self.changes or {"--pinned", "restore"} & moves):
            return False
        if layout in READ_ONLY and (self.changes or {"--pinned", "restore"} & moves):
            return False
        return layout in self.layouts and situation in (self.situations or SITUATIONS)


def tool(name, **arguments):
    """Returns the command line that asks the server of `annals mcp` one question."""
    version = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "gate", "version": "1"}}
    lines = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": version},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": name, "arguments": arguments}},
    )
    return Verb(("mcp", "<" + "".join(json.dumps(line) + "\n" for line in lines)), json=False, serves=True)


# Lines on standard input. The ids are fixed, so that every run writes the same.
FIRST_ID, SECOND_ID = ("5c7c2f4e-0d0f-4c4b-9a53-6f0a1d7b2e%d" % number for number in (21, 22))
FOLLOWED = (
    '<{"id":"%s","role":"user","content":"first"}\n{"id":"%s","role":"user","content":"second"}\n'
    % (FIRST_ID, SECOND_ID)
)
FOLLOWED_ELSEWHERE = '<{"session":"{id}","id":"%s","role":"user","content":"first"}\n' % FIRST_ID

TODOS = '<[{"content": "gate", "status": "pending"}]'

VERBS = (
    Verb(()),
    Verb(("projects",)),
    # It shows the size of the index, so its answer depends on it.
    Verb(("doctor",), situations=("plain", "archived")),
    Verb(("sessions",)),
    Verb(("sessions", "-n", "1")),
    Verb(("conversations",)),
    Verb(("conversations", "{kept}")),
    Verb(("show", "{id}")),
    Verb(("show", "{id}", "--last", "2")),
    Verb(("show", "{id}", "--all")),
    Verb(("show", "{kept}")),
    Verb(("show", "latest")),
    Verb(("tree", "{id}")),
    Verb(("tree", "{kept}")),
    Verb(("search", "the")),
    Verb(("search", "the", "project:w")),
    Verb(("cost",)),
    Verb(("cost", "--by", "session")),
    Verb(("cost", "--by", "branch,agent")),
    Verb(("files", "{id}")),
    Verb(("files", "{id}", "--outputs"), ("claude-code",)),
    Verb(("todos",)),
    Verb(("notes",)),
    Verb(("plans",)),
    Verb(("history",)),
    Verb(("documents",)),
    Verb(("check",)),
    Verb(("repair",)),
    Verb(("clean", "--older-than", "1d")),
    Verb(("archive", "--list")),
    Verb(("archive", "--verify")),
    Verb(("archive", "{id}", "--pinned")),
    Verb(("restore", "{kept}"), situations=("archived", "indexed")),
    Verb(("delete", "--list")),
    Verb(("sessions", "--state", "deleted")),
    Verb(("clean", "--purge")),
    Verb(("delete", "{id}", "--pinned")),
    Verb(("pin",)),
    Verb(("repair", "--list")),
    Verb(("statusline", "<{}")),
    Verb(("resume", "{id}", "--print"), RESUMED),
    Verb(("chorus", "workspaces"), CHORUS),
    Verb(("chorus", "agents"), CHORUS),
    Verb(("chorus", "settings"), CHORUS),
    Verb(("export", "{id}", "--format", "markdown", "-o", "-"), json=False),
    Verb(("export", "{kept}", "--format", "html", "-o", "-"), json=False),
    Verb(("export", "{id}", "--format", "json", "-o", "-")),
    Verb(("export", "{kept}", "--format", "jsonl", "-o", "-")),
    Verb(("watch", "{id}", "--last", "3"), endless=True),
    Verb(("watch", "{kept}", "--last", "3"), endless=True),
    Verb(("watch", "--all", "--last", "5", "--cost"), endless=True),
    tool("sessions"),
    tool("search", query="the"),
    tool("outline", session="{id}"),
    tool("read", id="{kept}"),
    tool("cost", by="session"),
    Verb(("append", "{id}", "--follow", FOLLOWED), json=False, changes=True, answers=True),
    Verb(("append", "--follow", FOLLOWED_ELSEWHERE), json=False, changes=True, answers=True),
    Verb(("convert", "{id}", "--to", "{other}")),
    Verb(("convert", "{id}", "--to", "{other}", "--into", "{base}/out"), writes=True),
    Verb(("convert", "{layout}:{root}", "--to", "{other}", "--without-archived", "--into", "{base}/out"), writes=True),
)

# Layouts whose logs hold one session; only there can a single session be removed.
PARTED = ("claude-code", "chorus", "clog", "codex", "pi", "gemini", "qwen", "copilot")
# Layouts with a place for notes, tags, todos, forks and imported sessions.
WRITTEN = tuple(name for name in ROOTS if name not in (*READ_ONLY, *DATABASES))
ARCHIVED = ("archived",)
PLAIN = ("plain",)
WRITERS = (
    Verb(("append", "{id}", "-m", "gate"), situations=PLAIN, changes=True, acknowledges=True),
    Verb(("title", "{id}", "gate"), situations=PLAIN, changes=True, acknowledges=True),
    Verb(("compact", "{id}", "--summary", "gate"), situations=PLAIN, changes=True, acknowledges=True),
    Verb(("tag", "{id}", "gate"), WRITTEN, PLAIN, changes=True, acknowledges=True),
    Verb(("notes", "add", "{id}", "gate"), WRITTEN, PLAIN, changes=True, acknowledges=True),
    Verb(("todos", "set", "{id}", "-", TODOS), WRITTEN, PLAIN, changes=True, acknowledges=True),
    Verb(("pin", "{id}"), situations=PLAIN, changes=True),
    Verb(("fork", "{id}", "--id", SECOND_ID, "--title", "gate"), WRITTEN, PLAIN, changes=True),
    Verb(("import", "{base}/work/export.jsonl", "--fresh-ids"), WRITTEN, PLAIN, changes=True),
    Verb(("keep",), situations=(*PLAIN, *ARCHIVED), changes=True),
    Verb(("archive", "{id}", "--live", "--apply"), PARTED, PLAIN, changes=True),
    Verb(("restore", "{kept}", "--apply"), situations=ARCHIVED, changes=True),
    Verb(("delete", "{id}", "--apply"), PARTED, PLAIN, changes=True),
    Verb(("delete", "--undo", "{gone}"), PARTED, ARCHIVED, changes=True),
    Verb(("clean", "--older-than", "1d", "--live", "--apply"), situations=PLAIN, changes=True),
    Verb(("repair", "--apply"), situations=PLAIN, changes=True),
    Verb(("archive", "--forget", "{kept}", "--apply"), situations=ARCHIVED, changes=True, destroys=True),
)

# Commands that prepare the root, and whether the index is used.
SITUATIONS = {
    "plain": ((), False),
    "archived": (
        (
            ("archive", "{kept}", "--apply"),
            ("archive", "{id}", "--keep-source", "--apply"),
            ("pin", "{id}"),
            ("delete", "{gone}", "--apply"),
            ("repair", "--apply"),
        ),
        False,
    ),
    "unindexed": ((), True),
    "indexed": ((("archive", "{kept}", "--apply"), ("index", "build")), True),
}


@dataclass(frozen=True)
class Point:
    """One call: its name, its number among the calls of that name that `strace -P place` traces,
    and the path below the stage that it reads."""

    call: str
    number: int
    place: str
    path: str

    @property
    def is_index(self):
        return self.path.startswith("state/index-")

    def errors(self):
        return ("EIO", "EACCES") if self.call in ("open", "openat", "openat2") else ("EIO",)


@dataclass
class Answer:
    """Output of a run, with the path of the stage masked."""

    code: int
    out: bytes
    err: bytes
    files: dict = field(default_factory=dict)

    def names(self, point):
        """Returns whether standard error names the path of a failed read. If a file in a directory
        could not be examined, the directory may be named instead."""
        said = self.err.decode(errors="replace")
        return any(f"{{base}}/{path}" in said for path in (point.path, os.path.dirname(point.path)))

    def said(self):
        return (self.err or self.out).decode(errors="replace").strip()[:300]

    def same(self, other):
        return (self.code, self.out, self.files) == (other.code, other.out, other.files)


class Scene:
    """A prepared root on which verbs are run repeatedly from the same state."""

    def __init__(self, layout, situation):
        self.layout, self.situation = layout, situation
        prepare, self.indexed = SITUATIONS[situation]
        first, *more = ROOTS[layout]
        self.stage = Stage(layout, first)
        for fixture in more:
            folder = REPOSITORY / "fixtures" / layout / fixture
            shutil.copytree(folder, self.stage.root, dirs_exist_ok=True)
        self.base = str(self.stage.base)
        listed = self.stage.run(["--json", "--no-index", "sessions"])
        sessions = json.loads(listed.stdout)["sessions"]
        # The sessions to which annals appends first, and of these the ones with the most data.
        sessions.sort(key=lambda it: (bool(OLDER.search(it["file"])), -it["agents"], -it["bytes"], it["id"], it["file"]))
        unique = [it for it in sessions if [o["id"] for o in sessions].count(it["id"]) == 1]
        self.id = unique[0]["id"]
        self.kept = unique[-1]["id"]
        # A session in a shared log cannot be removed, nor one of a database or of a layout that is only read.
        is_removable = layout not in (*READ_ONLY, *DATABASES, "orchestrator")
        self.gone = unique[1]["id"] if is_removable else None
        for command in prepare:
            if "{gone}" in command and not self.gone:
                continue
            # annals archives copies of layouts that it only reads, and none of databases.
            if command[0] == "archive" and layout in DATABASES:
                continue
            if command[0] == "archive" and layout in READ_ONLY:
                command = tuple(dict.fromkeys((*command[:-1], "--keep-source", "--apply")))
            run = self.stage.run(self.spell(command))
            if run.returncode not in (0, 1):
                raise RuntimeError(f"{layout}, {situation}: {command}: {run.stderr.decode()}")
        export = ["--no-index", "export", self.id, "--format", "jsonl"]
        run = self.stage.run([*export, "-o", "{base}/work/export.jsonl"])
        if run.returncode not in (0, 1):
            raise RuntimeError(f"{layout}, {situation}: {export}: {run.stderr.decode()}")
        self.aside, self.aside_root = self.stage.base / "aside", self.stage.base / "aside-root"
        shutil.copytree(self.stage.root, self.aside_root, symlinks=True)
        if (self.stage.base / "state").exists():
            shutil.copytree(self.stage.base / "state", self.aside)
        # Ids that existed before; each run generates others.
        everything = b"\n".join(path.encode() + b for path, b in self.stage.everything().items())
        self.ids = {*UUID.findall(everything), *NEW_ROW.findall(everything)}
        self.before = self.unpacked()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.stage.base, ignore_errors=True)

    def reset_files(self, verb):
        """Restores the root after a verb that writes, and removes its output files."""
        shutil.rmtree(self.stage.base / "out", ignore_errors=True)
        if verb.changes:
            shutil.rmtree(self.stage.root)
            shutil.copytree(self.aside_root, self.stage.root, symlinks=True)

    def reset(self, verb):
        """Restores the root, and the state directory if the run may have changed it."""
        self.reset_files(verb)
        if not verb.changes and not self.indexed:
            return
        shutil.rmtree(self.stage.base / "state", ignore_errors=True)
        if self.aside.exists():
            shutil.copytree(self.aside, self.stage.base / "state")

    def picture(self):
        """Returns the result of a run: the root, the names in the state directory, its documents,
        and the list of the archive. Pack bytes differ in each run even with the same content."""
        found = {}
        for path, content in self.stage.tree().items():
            # The progress of verification is not part of the result.
            if path == "state/archive/keep.json":
                continue
            told = path.startswith("root/") or path.endswith(".json")
            found[self.masked(path.encode())] = self.masked(content) if told else b""
        listed = self.stage.run(["--json", "--no-index", "archive", "--list"])
        document = json.loads(listed.stdout) if listed.stdout else {}
        for row in document.get("archived", ()):
            row.pop("packed", None)
        found[b"archive"] = self.masked(json.dumps(document, sort_keys=True).encode())
        return found

    def masked(self, text, pattern=UUID):
        text = text.replace(self.base.encode(), b"{base}")
        return pattern.sub(lambda it: it.group() if it.group() in self.ids else b"{id}", text)

    def unpacked(self):
        """Returns every file, including those restored from the archive."""
        listed = self.stage.run(["--json", "--no-index", "archive", "--list"])
        sessions = json.loads(listed.stdout).get("archived", ()) if listed.stdout else ()
        for number, session in enumerate(sessions):
            self.stage.run(["restore", session["pack"], "--to", f"{{base}}/out/{number}", "--apply"])
        found = self.stage.everything()
        shutil.rmtree(self.stage.base / "out", ignore_errors=True)
        return {path: content for path, content in found.items() if not path.endswith((".zst", "/manifest.jsonl"))}

    def spell(self, words):
        other = "claude-code" if self.layout != "claude-code" else "clog"
        names = {
            "{id}": self.id,
            "{kept}": self.kept,
            "{gone}": self.gone or "",
            "{other}": other,
            "{layout}": self.layout,
        }
        return [_replaced(word, names) for word in words]

    def run(self, verb, as_json, around=()):
        head = ["--json"] if as_json else ["--color=never"]
        head += [] if self.indexed else ["--no-index"]
        words = [*head, *self.spell(verb.words)]
        if verb.words and verb.words[0].startswith("/"):
            words = self.spell(verb.words)
        run = self.until_idle(words, around) if verb.endless else self.stage.run(words, around)
        base = self.base.encode()
        tops = ("out/",) * verb.writes + ("root/",) * verb.changes
        files = {}
        if tops:
            files = {
                path: INODE.sub(b"", self.masked(content, NEW_ROW))
                for path, content in self.stage.everything().items()
                if path.startswith(tops)
            }
        out, err = (FREE_SPACE.sub(b"0", text.replace(base, b"{base}")) for text in (run.stdout, run.stderr))
        return Answer(run.returncode, out, err, files)

    def until_idle(self, words, around):
        """Runs a program that does not end by itself, and interrupts it once it is idle."""
        process = subprocess.Popen(
            [*around, *self.stage.command(words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=self.stage.environment(),
        )
        interrupter = threading.Thread(target=interrupt_when_idle, args=(process, bool(around)))
        interrupter.start()
        out, err = process.communicate(timeout=120)
        interrupter.join()
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def points(self, verb, as_json):
        """Returns the undisturbed answer, and the calls that read for it."""
        self.reset(verb)
        trace = self.stage.base / "trace"
        around = (*TRACE, "-o", str(trace), "-e", f"trace={','.join(CALLS)}")
        answer = self.run(verb, as_json, around)
        found = points(trace.read_text(errors="replace"), self.base)
        trace.unlink()
        return answer, found

    def fail(self, verb, as_json, point, error):
        """Runs a verb with one call failing."""
        self.reset(verb)
        inject = f"inject={point.call}:error={error}:when={point.number}"
        only = ("-P", point.place, "-e", f"trace={point.call}", "-e", inject)
        around = (*TRACE, "-o", "/dev/null", *only)
        return self.run(verb, as_json, around)


# Number of consecutive checks that find all threads asleep, and seconds between them.
ASLEEP, APART = 10, 0.02


def interrupt_when_idle(process, is_traced):
    """Interrupts a program, which may run under strace, once all its threads have slept for a
    while."""
    asleep = 0
    while process.poll() is None:
        time.sleep(APART)
        try:
            pid = process.pid
            if is_traced:
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                pid = int(children[0])
            tasks = Path(f"/proc/{pid}/task").iterdir()
            states = [(task / "stat").read_text().rsplit(")", 1)[1].split()[0] for task in tasks]
        except (OSError, IndexError):
            continue
        asleep = asleep + 1 if set(states) == {"S"} else 0
        if asleep >= ASLEEP:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
            asleep = 0


# The free space of the disk, which `doctor` shows, changes at any time.
FREE_SPACE = re.compile(rb'(?<="free_bytes": )[0-9]+|(?<=, )[0-9.]+ [kMGT]?B(?= free)')

# Companion files contain the inode of their log, which is new in every run.
INODE = re.compile(rb',"inode":\d+')


def _replaced(text, names):
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def points(trace, base):
    """Returns the calls that read below a stage; of equal calls only the first two and the last."""
    seen, found = Counter(), {}
    for line in trace.splitlines():
        call = CALL.match(line)
        if not call:
            continue
        thread, name, arguments = call.groups()
        place, path = touched(name, arguments)
        seen[thread, name, place] += 1
        # A missing file is no fault, and may be created in the meantime.
        if path.startswith(f"{base}/") and "ENOENT" not in arguments:
            inner = os.path.normpath(path)[len(base) + 1 :]
            if inner.split("/")[0] in ("root", "state", "home"):
                point = Point(name, seen[thread, name, place], place, inner)
                found.setdefault((name, inner), []).append(point)
    return [point for same in found.values() for point in dict.fromkeys((*same[:2], same[-1]))]


def touched(call, arguments):
    """Returns the path by which strace filters a call, and the path that the call reads: that of a
    descriptor, a name, or a name relative to a descriptor."""
    quoted = r"\"((?:[^\"\\]|\\.)*)\""
    within = re.match(rf"(?:\d+|AT_FDCWD)<([^>]*)>(?:\(deleted\))?, {quoted}", arguments)
    if within and call in RELATIVE:
        folder, name = within.groups()
        return (name, name) if name.startswith("/") else (folder, f"{folder}/{name}")
    named = re.search(rf"\d+<([^>]*)>|{quoted}", arguments)
    path = (named.group(1) or named.group(2) or "") if named else ""
    return path, path


def judge(undisturbed, answer, point, as_json, serves=False):
    """Returns the error of an answer after a failed read; None if the answer is the undisturbed one
    or if the path was reported."""
    if b"panicked" in answer.err:
        return f"panic: {answer.said()}"
    if undisturbed.same(answer):
        return None
    if serves and answer.code == 0:
        named = Answer(0, b"", answer.out).names(point)
        return None if named else f"silent: {answer.said()}"
    if answer.code != 2:
        return f"silent: exit code {answer.code}: {answer.said()}"
    if point.is_index:
        return f"the answer depends on the index: {answer.said()}"
    if not answer.names(point):
        return f"path not named: {answer.said()}"
    if as_json and answer.out and not in_json(answer.out) and not in_stream(answer.out):
        return f"not in the JSON: {answer.said()}"
    return None


def in_json(out):
    try:
        document = json.loads(out)
    except ValueError:
        return False
    return isinstance(document, dict) and bool(document.get("problems") or document.get("error"))


def judge_change(scene, verb, as_json, undisturbed, goal, answer, point):
    """Returns the error of a verb that writes after a failed read, judged by its answer and by the
    files it left. `goal` is the result of the undisturbed run."""
    if b"panicked" in answer.err:
        return f"panic: {answer.said()}"
    left = goal.of(scene.picture())
    wrong = differences(goal.left, left)
    if answer.code == undisturbed.code:
        if wrong and not (verb.acknowledges and all(map(is_session_list, wrong))):
            return f"silent: another result: {', '.join(wrong)[:300]}"
        if not wrong:
            return None
    elif answer.code != 2:
        return f"silent: exit code {answer.code}: {answer.said()}"
    if not answer.names(point):
        return f"path not named: {answer.said()}"
    # If the document of what was done is already written, that of the error is on standard error.
    if as_json and not any(map(in_json, (answer.out, *answer.err.splitlines()))):
        return f"not in the JSON: {answer.said()}"
    scene.run(verb, as_json)
    if verb.destroys or goal.of(scene.picture()) == goal.left:
        return None
    # Rows of a session list may be removed with their sessions.
    kept = {
        path: content
        for path, content in scene.before.items()
        if not path.startswith("state/") and not is_session_list(path)
    }
    lost = oracle.lost(kept, scene.unpacked(), SimpleNamespace(removes=(), changes=("root/config.json",)))
    return f"lost: {lost[0]}" if lost else None


def differences(goal, left):
    names = sorted(name for name in goal.keys() | left.keys() if goal.get(name) != left.get(name))
    return [name.decode(errors="replace") for name in names]


def is_session_list(path):
    return any(fnmatch(path, pattern) for pattern in SESSION_LISTS)


class Goal:
    """The result of an undisturbed run. If two such runs differ, because ids are generated in
    another form, only file names and line counts are compared."""

    def __init__(self, scene, verb, as_json):
        one = scene.picture()
        scene.reset(verb)
        scene.run(verb, as_json)
        self.exact = scene.picture() == one
        self.left = self.of(one)

    def of(self, picture):
        if self.exact:
            return picture
        return {name: content.count(b"\n") for name, content in picture.items()}


def in_stream(out):
    """Returns whether a line of an event stream or of an export reports a problem."""
    try:
        lines = [json.loads(line) for line in out.splitlines()]
    except ValueError:
        return False
    return any("problem" in (line.get("event"), line.get("type")) for line in lines if isinstance(line, dict))


class Tally:
    """Counts of the attempts on one root."""

    def __init__(self):
        self.points = self.reported = 0
        self.failures = []


def attempt(scene, verb, as_json, tally, dice, limit=None):
    """Fails the reads of a verb one by one, each in its own run; at most `limit` of them."""
    undisturbed, found = scene.points(verb, as_json)
    title = f"{verb.name}, {scene.layout}, {scene.situation}, {'json' if as_json else 'text'}"
    if undisturbed.code not in (0, 1):
        tally.failures.append(f"{title}: the undisturbed run fails: {undisturbed.said()}")
        return
    goal = Goal(scene, verb, as_json) if verb.changes and not verb.answers else None
    tries = [(point, error) for point in found for error in point.errors()]
    if limit is not None and len(tries) > limit:
        tries = dice.sample(tries, limit)
    for point, error in tries:
        answer = scene.fail(verb, as_json, point, error)
        if goal:
            wrong = judge_change(scene, verb, as_json, undisturbed, goal, answer, point)
        else:
            wrong = judge(undisturbed, answer, point, as_json, verb.serves)
        if not wrong and scene.indexed and not goal:
            # An unreadable file must not be indexed as missing.
            scene.reset_files(verb)
            again = scene.run(verb, as_json)
            if not undisturbed.same(again):
                wrong = f"remembered: the next run differs: exit code {again.code}"
        tally.points += 1
        tally.reported += answer.code == 2 or verb.serves and not undisturbed.same(answer)
        if wrong:
            where = f"{title}, {point.call} {point.number} {error} {point.path}"
            tally.failures.append(f"{where}: {wrong}")


SWALLOWS = """
import os, sys
lines = 0
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        try:
            with open(os.path.join(folder, name), "rb") as file:
                lines += len(file.read().splitlines())
        except OSError:
            pass
print(lines)
"""


# Reports on standard error what it cannot read, and leaves its document as it is.
TEARS = """
import os, sys
sys.stdout.write('{"files":[')
sys.stdout.flush()
first = True
for folder, _, names in sorted(os.walk(sys.argv[1])):
    for name in sorted(names):
        path = os.path.join(folder, name)
        try:
            size = len(open(path, "rb").read())
        except OSError as error:
            print(path, error, file=sys.stderr, flush=True)
            os._exit(2)
        sys.stdout.write(("" if first else ",") + str(size))
        sys.stdout.flush()
        first = False
print("]}")
"""


# Reports what it cannot read in its document only.
WHISPERS = """
import json, os, sys
for folder, _, names in sorted(os.walk(sys.argv[1])):
    for name in sorted(names):
        path = os.path.join(folder, name)
        try:
            open(path, "rb").read()
        except OSError as error:
            print(json.dumps({"error": {"message": f"{path}: {error}"}}), flush=True)
            os._exit(2)
print("{}")
"""


def controls():
    """Yields whether each wrong reader is caught: one that silently skips unreadable files, one whose
    document is torn, and one that leaves standard error empty."""
    python = shutil.which("python3")
    wrong = (
        (SWALLOWS, False, "silent"),
        (TEARS, True, "not in the JSON"),
        (WHISPERS, True, "path not named"),
    )
    for text, as_json, sign in wrong:
        tally = Tally()
        with Scene("chorus", "plain") as scene:
            verb = Verb((python, "-I", "-S", "-c", text, "{root}"))
            attempt(scene, verb, as_json, tally, random.Random(1))
        yield any(sign in failure for failure in tally.failures)


def gate(full, seed=1, only=None, limit=None):
    """Runs the gate. `limit` is the maximum number of failed reads per verb; None means all."""
    begin = time.monotonic()
    groups = {}
    for situation in SITUATIONS:
        for layout in ROOTS:
            for verb in (*VERBS, *WRITERS):
                name = f"{situation}, {layout}: {verb.name}"
                if verb.fits(layout, situation) and (not only or re.search(only, name)):
                    groups.setdefault((situation, layout), []).append(verb)
    if not full:
        # Two verbs in each situation of each layout.
        dice = random.Random(seed)
        groups = {key: dice.sample(verbs, min(2, len(verbs))) for key, verbs in groups.items()}
        limit = 8
    total = Row("12", "every read fails", "all layouts", 0, None, 0, 0)
    rows = []
    with ThreadPoolExecutor(THREADS) as pool:
        for row in pool.map(lambda group: _group(*group, full, seed, limit), groups.items()):
            rows.append(row)
            total.points += row.points
            total.acks += row.acks
            total.failures += row.failures
            if full:
                print(f"    {' | '.join(row.cells())}", *row.failures, sep="\n    ", flush=True)
    total.lost = len(total.failures)
    caught = list(controls())
    total.control = f"{sum(caught)} of {len(caught)} caught"
    if not all(caught):
        total.failures.append("a reader that hides what it cannot read was not caught")
    total.seconds = time.monotonic() - begin
    return [*rows, total] if full else [total]


def _group(key, verbs, full, seed, limit):
    """Runs all verbs of one situation on one layout."""
    situation, layout = key
    begin = time.monotonic()
    dice, tally = random.Random(f"{seed} {key}"), Tally()
    with Scene(layout, situation) as scene:
        for verb in verbs:
            forms = (False, True) if verb.json else (False,)
            for as_json in forms if full else (dice.choice(forms),):
                attempt(scene, verb, as_json, tally, dice, limit)
            if verb.changes:
                # Verbs that only read share one root.
                scene.reset(verb)
    what = f"every read fails, {situation}"
    row = Row("12", what, layout, tally.points, None, tally.reported, len(tally.failures))
    row.failures, row.seconds = tally.failures, time.monotonic() - begin
    return row


if __name__ == "__main__":
    from table import show

    arguments = sys.argv[1:]
    limit = next((int(word[8:]) for word in arguments if word.startswith("--limit=")), None)
    only = next((word for word in arguments if word[0] != "-"), None)
    with tempfile.TemporaryDirectory() as aside:
        # A rebuild during the run must not change the tested program.
        stage.PROGRAM = Path(shutil.copy2(stage.PROGRAM, aside))
        found = gate("--full" in arguments, only=only, limit=limit)
    show(found)
    for failure in found[-1].failures:
        print(failure)
    print(dict(Counter(failure.split(": ")[1] for failure in found[-1].failures)))
