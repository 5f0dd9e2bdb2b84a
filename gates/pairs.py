"""Gate 11: two operations on one session, the first paused after every system call.

strace stops the first after one call that touches the tree, the second runs to its end, and the
first continues. If the second waits for a lock of the first, the first continues before it ends.
Afterwards the bytes of every earlier file still exist somewhere, unless a verb that destroys
reported that it destroyed the only copy. Acknowledged data exists somewhere, and all reports are
true.

`VERBS` and `SITUATIONS` are the tables. A verb is the first of a pair in every situation where it
succeeds alone, and the second where it succeeds before or after the first.
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
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import stage
from kill import CALL
from oracle import SESSION_LISTS
from scripts import DAMAGED, FAMILY, PYTHON
from stage import FAST, Stage
from table import Row

# Two programs that do not end within this many seconds are a failure.
LIMIT = 60
# A program waits for a lock if this many checks, this many seconds apart, find it asleep.
ASLEEP, APART = 10, 0.003

# Programs that do not use annals.
APPEND = """
import os, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(log, b'{"type":"foreign","text":"' + sys.argv[2].encode() + b'"}\\n')
os.close(log)
"""
# Opens the log, and writes to it after the other operation has ended.
KEEP_OPEN = """
import os, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
sys.stdin.read()
os.write(log, b'{"type":"foreign","text":"' + sys.argv[2].encode() + b'"}\\n')
os.close(log)
"""
# The same, and appends by path as long as the log is open.
KEEP_OPEN_AND_APPEND = """
import os, select, sys
line = b'{"type":"foreign","text":"' + sys.argv[2].encode() + b'"}\\n'
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
while not select.select([0], [], [], 0.02)[0]:
    other = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(other, line)
    os.close(other)
sys.stdin.read()
os.write(log, line)
os.close(log)
"""
# Creates the log again if it is missing, with an old time, and runs a command.
RECREATE = """
import os, subprocess, sys
log, word, *command = sys.argv[1:]
os.makedirs(os.path.dirname(log), exist_ok=True)
try:
    new = open(log, "x")
except FileExistsError:
    sys.exit(1)
with new:
    new.write('{"type":"foreign","text":"' + word + '"}\\n')
os.utime(log, (%d, %d))
sys.exit(subprocess.run(command).returncode)
""" % (stage.FIXTURE_TIME, stage.FIXTURE_TIME)
WRITE_TODOS = """
import os, sys
os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)
open(sys.argv[1], "w").write('[{"content":"' + sys.argv[2] + '","status":"pending","activeForm":"x"}]')
"""
REPLACE_TODOS = """
import os, sys
os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)
new = sys.argv[1] + ".new"
open(new, "w").write('[{"content":"' + sys.argv[2] + '","status":"pending","activeForm":"x"}]')
os.rename(new, sys.argv[1])
"""
REMOVE = """
import shutil, sys
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


def python(text, *arguments):
    return (PYTHON, "-I", "-S", "-c", text, *arguments)


@dataclass(frozen=True)
class Verb:
    """One operation. `{log}` and `{todos}` are files of the session, `{other}` is a layout."""

    name: str
    command: tuple
    # Whether it moves a session out of the root, or into it.
    takes: bool = False
    brings: bool = False
    # Where it may destroy an only copy: "archive", "trash", "quarantine".
    destroys: str = ""
    # Where it stores what it takes.
    fills: str = ""
    # What the first verb must do so that this one has something to do.
    follows: str = ""
    # Files of the root that it replaces; `{log}` is the log of the session.
    replaces: tuple = ()
    # Whether it acknowledges a token that must exist somewhere afterwards.
    acknowledges: bool = False
    # Whether it removes and replaces nothing that another verb wrote.
    harmless: bool = False
    # Whether it takes an id that only one session can have.
    claims: bool = False
    # Whether it is a program that ignores annals' locks; it is never the first.
    foreign: bool = False
    # Whether it waits for the end of its standard input, which comes after the first has ended.
    lasts: bool = False


# The program, on the root of the stage.
ANNALS = ("{annals}", "--root", "{layout}:{root}")

TODOS = ("*todos*",)
# A list of one session, which a writer updates, in the trash as well.
LIST = ("*/workspace.yaml",)
# The list of workspaces, to which those of new sessions are added.
CONFIG = ("root/config.json",)

NEW_ID = "5c7c2f4e-0d0f-4c4b-9a53-6f0a1d7b2e11"

VERBS = (
    Verb("archive", ("archive", "{id}", "--apply"), takes=True, fills="archive", follows="brings"),
    Verb("forget", ("archive", "--forget", "{id}", "--apply"), destroys="archive", follows="archive"),
    Verb("restore", ("restore", "{id}", "--apply"), brings=True, follows="archive"),
    Verb("delete", ("delete", "{id}", "--apply"), takes=True, fills="trash", follows="brings"),
    Verb("undelete", ("delete", "--undo", "{id}"), brings=True, follows="trash"),
    Verb("purge", ("clean", "--purge", "--apply"), destroys="trash", follows="trash"),
    Verb("clean", ("clean", "--older-than", "1d", "--apply"), takes=True, fills="trash", follows="brings"),
    Verb("repair", ("repair", "--apply"), fills="quarantine"),
    # The original replaces the repaired file.
    Verb("undo a repair", ("repair", "--undo", "{id}"), replaces=("{log}",), follows="quarantine"),
    Verb("forget a repair", ("repair", "--forget", "--all", "--apply"), destroys="quarantine", follows="quarantine"),
    Verb("keep", ("keep",), fills="archive", follows="brings", harmless=True),
    Verb("import", ("import", "{base}/work/exported.jsonl"), brings=True, follows="takes", replaces=CONFIG),
    Verb("convert", ("convert", "{root}", "--to", "{other}", "--into", "{base}/out"), harmless=True),
    Verb("append", ("append", "{id}", "-m", "{token}"), acknowledges=True, harmless=True, follows="brings", replaces=LIST),
    Verb("title", ("title", "{id}", "{token}"), acknowledges=True, harmless=True, follows="brings", replaces=LIST),
    Verb("todo", ("todos", "add", "{id}", "{token}"), acknowledges=True, harmless=True, follows="brings", replaces=TODOS),
    Verb("fork", ("fork", "{id}", "--id", NEW_ID), claims=True),
    Verb("import a chosen id", ("import", "{base}/work/chosen.jsonl"), claims=True, replaces=CONFIG),
    Verb("new", ("new", "--id", NEW_ID, "--cwd", "/w/gate", "-m", "{token}"), claims=True, replaces=CONFIG),
    Verb("a foreign append", python(APPEND, "{log}", "{token}"), acknowledges=True, harmless=True, follows="brings", foreign=True),
    Verb(
        "a log kept open",
        python(KEEP_OPEN, "{log}", "{token}"),
        acknowledges=True, harmless=True, foreign=True,
        lasts=True,
    ),
    Verb(
        "a log kept open and appended to",
        python(KEEP_OPEN_AND_APPEND, "{log}", "{token}"),
        acknowledges=True, harmless=True, foreign=True,
        lasts=True,
    ),
    Verb(
        "a new log, archived",
        python(RECREATE, "{log}", "{token}", *ANNALS, "archive", "{id}", "--live", "--apply"),
        takes=True, fills="archive", follows="takes", acknowledges=True, foreign=True,
    ),
    Verb(
        "foreign todos",
        python(WRITE_TODOS, "{todos}", "{token}"),
        acknowledges=True, harmless=True, follows="brings",
        foreign=True,
        replaces=TODOS,
    ),
    Verb(
        "foreign todos by a rename",
        python(REPLACE_TODOS, "{todos}", "{token}"),
        acknowledges=True, harmless=True, follows="brings",
        foreign=True,
        replaces=TODOS,
    ),
    Verb("a vanishing archive", python(REMOVE, "{base}/state/archive"), destroys="archive", follows="archive", foreign=True),
)


@dataclass(frozen=True)
class Situation:
    """Where the session is before the two operations start."""

    name: str
    on: dict
    prepare: tuple = ()
    # Each pair has one of these verbs; any if empty.
    about: tuple = ()
    # Whether the state directory is on another file system than the root.
    elsewhere: bool = False
    # Whether the rename of the file system cannot refuse to replace a file.
    old_rename: bool = False


KEEP_SOURCE = ("archive", "{id}", "--keep-source", "--apply")
# One damaged log each, that of the first session.
ONE_DAMAGED = {
    "claude-code": DAMAGED["claude-code"],
    "clog": DAMAGED["clog"],
    "orchestrator": "corrupt-middle",
}
# A directory on another file system than the stages, or None.
ELSEWHERE = next(
    (path for path in (Path(tempfile.gettempdir()), Path.home()) if path.stat().st_dev != FAST.stat().st_dev),
    None,
)
ARCHIVES = ("archive", "forget", "restore", "keep", "a vanishing archive")
SITUATIONS = (
    Situation("live", FAMILY),
    Situation("mirrored", FAMILY, (KEEP_SOURCE,), about=ARCHIVES),
    Situation("archived", FAMILY, (("archive", "{id}", "--apply"),)),
    Situation("deleted", FAMILY, (("delete", "{id}", "--apply"),)),
    Situation(
        "mirrored and deleted", FAMILY, (KEEP_SOURCE, ("delete", "{id}", "--apply")), about=ARCHIVES
    ),
    *(
        [Situation("two file systems", FAMILY, about=("delete", "clean", "archive"), elsewhere=True)]
        if ELSEWHERE
        else []
    ),
    *(
        [Situation("old rename", FAMILY, about=("delete", "clean", "archive"), old_rename=True)]
        if stage.can_be_old()
        else []
    ),
    Situation("damaged", ONE_DAMAGED, about=("repair",)),
    Situation(
        "repaired",
        ONE_DAMAGED,
        (("repair", "--apply"),),
        about=("undo a repair", "forget a repair"),
    ),
)


class Scene:
    """A prepared stage that is restored for every point, always at the same path."""

    def __init__(self, situation, layout):
        self.situation, self.layout, self.traced = situation, layout, {}
        self.around = stage.OLD_RENAME if situation.old_rename else ()
        self.stage = Stage(layout, situation.on[layout])
        if situation.elsewhere:
            state = tempfile.mkdtemp(prefix="annals-gate-state-", dir=ELSEWHERE)
            (self.stage.base / "state").symlink_to(state)
        self.saved = Path(tempfile.mkdtemp(prefix="annals-gate-saved-", dir=FAST))
        self.id = self.stage.first_session()
        self.other = "chorus" if layout != "chorus" else "claude-code"
        self.log = self.todos = "/nowhere"
        # Creates todos of the session, if the layout stores them in a file.
        self.stage.run(self.spell(("todos", "add", "{id}", "prepared"), ""))
        exported = ("export", "{id}", "--format", "jsonl", "-o", "{base}/work/exported.jsonl")
        self.prepare(exported)
        # The same session under another id, which other verbs use as well.
        work = self.stage.base / "work"
        text = (work / "exported.jsonl").read_text()
        # Sub-agents of some layouts are sessions whose name begins with it.
        for end in ('"', "--"):
            text = text.replace(f'"{self.id}{end}', f'"{NEW_ID}{end}')
        (work / "chosen.jsonl").write_text(text)
        self.find()
        whole = self.stage.tree()
        self.whole = whole[self.name_of_log()]
        for command in situation.prepare:
            self.prepare(command)
        # Contents that must exist later: the first files of the root, and the present ones.
        now = self.stage.tree()
        before = {**{f"first/{path}": was for path, was in whole.items() if now.get(path) != was}, **now}
        self.contents = {path: was for path, was in before.items() if was and counts(path)}
        for top in (*stage.TOPS, "work"):
            if (self.stage.base / top).exists():
                shutil.copytree((self.stage.base / top).resolve(), self.saved / top, symlinks=True)

    def prepare(self, command):
        done = self.stage.run(self.spell(command, "prepared"))
        if done.returncode != 0:
            raise RuntimeError(f"{self}: {command}: {done.stderr.decode()}")

    def find(self):
        """Finds the main log of the session and its todo file."""
        listed = self.stage.run(["--json", "--no-index", "sessions"])
        sessions = json.loads(listed.stdout)["sessions"]
        self.log = next(session["file"] for session in sessions if session["id"] == self.id)
        lists = [path for path in self.stage.tree() if fnmatch(path, "root/*todos*.json")]
        if lists:
            self.todos = str(self.stage.base / lists[0])

    def reset(self):
        for top in (*stage.TOPS, "given"):
            path = (self.stage.base / top).resolve()
            shutil.rmtree(path, ignore_errors=True)
            if top in stage.TOPS and (self.saved / top).exists():
                shutil.copytree(self.saved / top, path, symlinks=True)

    def spell(self, command, token):
        places = {"{id}": self.id, "{token}": token, "{other}": self.other}
        places.update({"{annals}": str(stage.PROGRAM), "{layout}": self.layout})
        places.update({"{log}": self.log, "{todos}": self.todos})
        words = []
        for word in command:
            for name, place in places.items():
                word = word.replace(name, place)
            words.append(word)
        return words

    def has_log(self, tree):
        return self.name_of_log() in tree

    def name_of_log(self):
        return str(Path(self.log).relative_to(self.stage.base))

    def has_whole_log(self, tree):
        """Returns whether the log has its first content: other verbs may create a new one."""
        return tree.get(self.name_of_log(), b"").startswith(self.whole)

    def given(self):
        """Returns the files that `restore` wrote outside the root."""
        base = self.stage.base / "given"
        return {f"given/{path}": path.read_bytes() for path in base.rglob("*") if path.is_file()}

    def points(self, verb):
        """Returns the points of a verb that runs alone; none if it has nothing to do here.

        They differ between scenes, because some names are derived from the path of the root.
        """
        if verb.name not in self.traced:
            self.reset()
            before, trace = self.stage.tree(), self.stage.base / "trace"
            around = (*self.around, "strace", "-f", "-y", "-qq", "-o", str(trace))
            done = self.stage.run(self.spell(verb.command, TOKENS[0]), around=around)
            acts = done.returncode == 0 and self.stage.tree() != before
            calls = trace.read_text(errors="replace")
            self.traced[verb.name] = points(calls, str(self.stage.base)) if acts else []
        return self.traced[verb.name]

    def close(self):
        shutil.rmtree((self.stage.base / "state").resolve(), ignore_errors=True)
        shutil.rmtree(self.stage.base, ignore_errors=True)
        shutil.rmtree(self.saved, ignore_errors=True)

    def __str__(self):
        return f"{self.situation.name}, {self.layout}"


def counts(path):
    """Returns whether the bytes of a file must survive every pair. Derived files need not, nor
    files that only the program reads, whose contents are restored instead."""
    name = path.rsplit("/", 1)[-1]
    if path.startswith("state/"):
        return place(path) in ("trash", "quarantine") and name not in ("manifest.json", "removed.jsonl")
    return not any(fnmatch(path, pattern) for pattern in SESSION_LISTS)


def place(path):
    """Returns the place of a file: root, trash, quarantine, archive, given."""
    parts = path.split("/")
    if parts[:2] == ["state", "undo"] and len(parts) > 2:
        # The id of a deletion begins with its time.
        return "trash" if re.match(r"(\.purging-)?\d{8}T\d{6}-", parts[2]) else "quarantine"
    return parts[1] if parts[0] == "state" and len(parts) > 1 else parts[0]


def places(tree, was, stands):
    """Returns the places of a content, except the archive, which only the program can read."""
    return {place(path) for path, now in tree.items() if stands(was, now)} & PLACES


PLACES = {"root", "trash", "quarantine"}


def points(trace, base):
    """Returns each call that touches the tree: its name, a path, and its number. Scanning /proc
    makes a varying number of calls, so for calls that read, only those with the same path are
    counted. For other calls all of that name are counted.

    Omitted are calls without effect or information, stats of open files, and, of several reads of
    one path before the first lock or change, all but the last. Also omitted are the index, which is
    disposable, and reads of temporary files, whose names are random.
    """
    seen, found, looks = Counter(), {}, {}
    acts, tops = False, tuple(f"{base}/{top}" for top in (*stage.TOPS, "work"))
    for line in trace.splitlines():
        call = CALL.match(line)
        if not call:
            continue
        thread, name, rest = call.groups()
        arguments = rest.rsplit(") = ", 1)[0]
        paths = [path for path in PATH.findall(arguments) if path.startswith(tops)]
        for path in {*paths, ""}:
            seen[thread, name, path] += 1
        if not paths or name in IDLE or "/state/index-" in rest:
            continue
        # The last path is the most specific: a name in a directory.
        path = paths[-1]
        reads = name in LOOKS and "O_CREAT" not in rest
        acts = acts or not reads and "LOCK_SH" not in rest
        if name in STATS and "AT_EMPTY_PATH" in rest:
            continue
        if name in LOOKS and ".annals-" in path and not stage.REMOVED.search(path):
            continue
        counted = path if name in LOOKS else ""
        at = Point(name, path[len(base) + 1 :], bool(counted), seen[thread, name, counted])
        if reads and looks.get(path) in found and (not acts or name in READS and looks[path].name == name):
            del found[looks[path]]
        looks[path] = at if reads else None
        found[at] = None
    return list(found)


@dataclass(frozen=True)
class Point:
    """One system call of a program."""

    name: str
    # A path below the base of the stage.
    path: str
    # Whether only calls with that path are counted.
    only: bool
    number: int

    def __str__(self):
        among = "" if self.only else f" ({self.name} {self.number})"
        number = f" {self.number}" if self.only else ""
        return f"{self.name} {self.path}{number}{among}"


PATH = re.compile(r'(?<=["<])/[^"<>]*(?=[">])')
IDLE = ("execve", "exit_group", "close", "lseek", "fcntl", "fsync", "fdatasync", "fstatfs", "ioctl", "mmap")
READS = ("read", "pread64", "getdents64")
STATS = ("statx", "newfstatat", "fstat")
LOOKS = (*READS, *STATS, "openat", "open", "readlink", "readlinkat", "faccessat2", "stat", "lstat", "access")


class Paused:
    """A program that strace stops after one call."""

    def __init__(self, scene, arguments, point):
        self.reader, writer = os.pipe()
        inject = f"inject={point.name}:signal=STOP:when={point.number}"
        strace = ["strace", "-f", "-qq", "-o", f"/dev/fd/{writer}"]
        if point.only:
            strace += ["-P", str(scene.stage.base / point.path)]
        strace += ["-e", f"trace={point.name}", "-e", inject]
        self.process = subprocess.Popen(
            [*scene.around, *strace, *scene.stage.command(arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=scene.stage.environment(),
            pass_fds=(writer,),
        )
        os.close(writer)
        self.lines = open(self.reader, errors="replace")
        self.child = None
        self.reached = self._stopped()

    def _stopped(self):
        """Waits for the next stop; returns false at the end."""
        for line in self.lines:
            found = STOPPED.match(line)
            if found:
                self.child = int(found.group(1))
                return True
        return False

    def finish(self):
        """Continues the program to its end."""
        while self.child is not None:
            # It may have ended after its other threads were reported.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, signal.SIGCONT)
            # Another thread may reach a call of the same number.
            if not self._stopped():
                break
        self.lines.close()
        out, error = self.process.communicate(timeout=LIMIT)
        return Answer(self.process.returncode, out, error)


STOPPED = re.compile(r"^(\d+)\s+--- stopped by SIGSTOP ---")


@dataclass
class Answer:
    """Exit code and output of a program."""

    code: int
    out: bytes
    error: bytes

    def done(self):
        return self.code == 0


class Second:
    """The other program, which may have to wait for the paused one."""

    def __init__(self, scene, arguments, lasts):
        self.process = subprocess.Popen(
            [*scene.around, *scene.stage.command(arguments)],
            stdin=subprocess.PIPE if lasts else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=scene.stage.environment(),
        )

    def waits(self):
        """Returns true once the program sleeps, and false once it has ended."""
        asleep, until = 0, time.monotonic() + LIMIT
        while self.process.poll() is None:
            if time.monotonic() > until:
                return True
            asleep = asleep + 1 if self._sleeps() else 0
            if asleep == ASLEEP:
                return True
            time.sleep(APART)
        return False

    def _sleeps(self):
        tasks = Path(f"/proc/{self.process.pid}/task")
        try:
            states = [(task / "stat").read_text().rsplit(")", 1)[1].split()[0] for task in tasks.iterdir()]
        except OSError:
            return False
        return all(state == "S" for state in states)

    def finish(self):
        out, error = self.process.communicate(timeout=LIMIT)
        return Answer(self.process.returncode, out, error)


class Run:
    """One pair at one point: both answers, and snapshots of the tree in between."""

    def __init__(self, scene, first, second, point):
        self.scene, self.verbs = scene, (first, second)
        scene.reset()
        words = [scene.spell(verb.command, token) for verb, token in zip(self.verbs, TOKENS)]
        paused = Paused(scene, words[0], point)
        self.reached = paused.reached
        # `start` is before the second, `end` after both. `middle` is None if the two overlapped.
        self.start = scene.stage.tree()
        other = Second(scene, words[1], second.lasts)
        self.waited = other.waits()
        self.middle = None if self.waited else scene.stage.tree()
        if self.waited:
            before = paused.finish()
            self.answers = (before, other.finish())
        else:
            after = other.finish()
            self.answers = (paused.finish(), after)
        self.everything = scene.stage.everything()
        self.end = stage.lasting(self.everything)
        self.pool = dict(self.end)

    def _took(self, verb, answer):
        """Returns whether an operation created the session with the id that only one can have."""
        if verb.name.startswith("import"):
            # A thread of clog may have several conversations. The second of two imports of one file
            # finds the session of the first.
            if self.scene.layout == "clog" or b"imported by an earlier run" in answer.out:
                return False
        return verb.claims and answer.done()

    def failures(self):
        """Returns lost data and false reports."""
        scene, found = self.scene, []
        for verb, answer in zip(self.verbs, self.answers):
            if b"panicked" in answer.error or answer.code not in (0, 1, 2):
                found.append(f"{verb.name} ends with {answer.code}: {text(answer.error)}")
            elif answer.code == 2 and not answer.error:
                found.append(f"{verb.name} fails without a word")
        found += [f"{path} is left" for path in self.everything if stage.TEMPORARY.match(path.rsplit("/", 1)[-1])]
        # A reader does not show what such a file holds, so somebody must know of it.
        said = b"".join(answer.error + answer.out for answer in self.answers).decode(errors="replace")
        left = [path for path in stage.removed(self.everything) if path.rsplit("/", 1)[-1] not in said]
        found += [f"{path} is left, and nothing reports it" for path in left]
        found += self._untrue()
        if all(self._took(verb, answer) for verb, answer in zip(self.verbs, self.answers)):
            found.append("both took the same id")
        destroyed = any(self._destroyed(at) for at in (0, 1))
        if not scene.has_log(self.end):
            found += self._recover(destroyed)
        missing = self._missing()
        if missing:
            self._restore_versions()
            missing = self._missing()
        return found + missing

    def _restore_versions(self):
        """Restores the archived session outside the root, with all its earlier versions."""
        for version in range(MAX_VERSIONS):
            earlier = ("--earlier", str(version)) if version else ()
            given = ("restore", "{id}", *earlier, "--to", "{base}/given/" + str(version), "--apply")
            if self.scene.stage.run(self.scene.spell(given, "")).returncode != 0:
                break
        self.pool.update(self.scene.given())

    def _recover(self, destroyed):
        """Restores a session that is not in the root, from the trash and from the archive."""
        scene, errors = self.scene, []
        trash = {path.split("/")[2] for path in self.end if place(path) == "trash" and scene.id in path}
        commands = [("delete", "--undo", name) for name in sorted(trash)]
        for command in (*commands, ("restore", "{id}", "--apply")):
            answer = scene.stage.run(scene.spell(command, ""))
            tree = scene.stage.tree()
            self.pool.update({f"back/{path}": now for path, now in tree.items()})
            if destroyed or scene.has_log(tree):
                return []
            errors.append(f"{command[0]}: {text(answer.stderr)}")
        return [f"nothing brings the session back: {'; '.join(errors)}"]

    def _missing(self):
        missing, gone = [], []
        log = self.scene.name_of_log()
        replaced = [pattern.replace("{log}", log) for verb in self.verbs for pattern in verb.replaces]
        for path, was in self.scene.contents.items():
            if any(fnmatch(path, pattern) for pattern in replaced):
                continue
            if not any(begins(was, now) for now in self.pool.values()) and not self._asked(was, begins):
                gone.append(path)
        if gone:
            missing.append(f"{len(gone)} of {len(self.scene.contents)} files are gone: {gone[0]}")
        for verb, answer, token in zip(self.verbs, self.answers, TOKENS):
            word = token.encode()
            if verb.acknowledges and answer.done():
                if not any(holds(word, now) for now in self.pool.values()) and not self._asked(word, holds):
                    missing.append(f"what {verb.name} acknowledged is gone")
        return missing

    def _destroyed(self, at):
        return bool(self.verbs[at].destroys) and self.answers[at].done()

    def _asked(self, was, stands):
        """Returns whether a verb reported that it destroyed the only copy."""
        for at in (0, 1):
            if not self._destroyed(at):
                continue
            # The tree before the destroying verb, as far as it is known.
            found = self.start if at == 1 or self.waited else self.middle
            others = places(found, was, stands) - {self.verbs[at].destroys}
            moved = self.waited and self.verbs[1 - at].fills == self.verbs[at].destroys
            if not others or moved:
                return True
        return False

    def _untrue(self):
        """Returns verbs that reported the session as removed from the root although it is still
        there, and verbs that failed although nothing else took it."""
        found = []
        taken = [verb for verb in self.verbs if verb.takes]
        was_there = self.scene.name_of_log() in self.scene.contents
        if len(taken) == 1 and was_there and not self.scene.has_log(self.end):
            answer = self.answers[self.verbs.index(taken[0])]
            if answer.code == 2:
                found.append(f"{taken[0].name} took the session and fails: {text(answer.error)}")
        for at, tree in ((0, self.end), (1, self.middle)):
            verb, other = self.verbs[at], self.verbs[1 - at]
            if tree is None or not verb.takes or not self.answers[at].done():
                continue
            out = self.answers[at].out
            said = SAID.search(out) and self.scene.id[:8].encode() in out and b" stays: " not in out
            came = at == 0 and other.brings or self.waited
            if said and self.scene.has_whole_log(tree) and not came:
                found.append(f"{verb.name} reports that the session left the root, and its log is there")
        return found


# More versions than the files of a session have after one pair.
MAX_VERSIONS = 20
SAID = re.compile("✓ (archived, read back and removed|moved to the trash)".encode())
TOKENS = ("token-of-the-first", "token-of-the-second")


def begins(was, now):
    return now.startswith(was)


def holds(word, now):
    return word in now


def text(error):
    return " ".join(error.decode(errors="replace").split())[:300]


def pairs(situation, alone):
    """Yields ordered pairs in which each verb has something to do, before or after the other."""
    for first in VERBS:
        does = {first.fills, "takes" * first.takes, "brings" * first.brings} - {""}
        for second in VERBS:
            if first.foreign or first.name not in alone:
                continue
            if second.name not in alone and second.follows not in does:
                continue
            if situation.about and not {first.name, second.name} & set(situation.about):
                continue
            # Pairs of writers are tested by gates 2 and 10; `convert` and `keep` do not change a
            # root.
            if first.harmless and second.harmless or first.claims != second.claims:
                continue
            yield first, second


class Team:
    """Scenes of one situation on one layout, one per worker thread."""

    def __init__(self, situation, layout):
        self.situation, self.layout = situation, layout
        self.own = threading.local()
        self.scenes = []
        self.scene()

    def scene(self):
        if not hasattr(self.own, "scene"):
            self.own.scene = Scene(self.situation, self.layout)
            self.scenes.append(self.own.scene)
        return self.own.scene

    def close(self):
        for scene in self.scenes:
            scene.close()

    def try_pair(self, first, second, number):
        """Pauses the first verb at one of its points; returns the run and its failures."""
        scene = self.scene()
        points = scene.points(first)
        if number >= len(points):
            return None, []
        point = points[number]
        where = f"{scene}: {first.name} paused after {point}, {second.name}"
        try:
            run = Run(scene, first, second, point)
            failures = run.failures()
        except subprocess.TimeoutExpired:
            return None, [f"{where}: does not end"]
        said = [f"{verb.name} {answer.code}" for verb, answer in zip(run.verbs, run.answers)]
        waited = ", waited" if run.waited else ""
        return run, [f"{where} ({', '.join(said)}{waited}): {what}" for what in failures]


class Plan:
    """The pairs of one situation on one layout, and the points of their first verbs."""

    def __init__(self, situation, layout, firsts=VERBS):
        self.team = Team(situation, layout)
        scene = self.team.scene()
        counts = {verb.name: len(scene.points(verb)) for verb in firsts}
        alone = {name for name, count in counts.items() if count}
        if firsts is not VERBS:
            # The others are not tried alone; a verb that has nothing to do reports it.
            alone |= {verb.name for verb in VERBS if verb not in firsts}
        self.jobs = [
            (first, second, number)
            for first, second in pairs(situation, alone)
            for number in range(counts.get(first.name, 0))
        ]


def gate(full, seed=1, only=None, each=None):
    """Runs all pairs at all points, or a sample of them in the short form.

    `only` is a regular expression for names of pairs, such as `live, clog: archive, forget`; `each`
    is the number of random points per situation and layout.
    """
    rows, dice = [], random.Random(seed)
    places = [(situation, layout) for situation in SITUATIONS for layout in situation.on]
    if not full:
        places, each = dice.sample(places, 8), each or 12
    with ThreadPoolExecutor(2) as pool:
        for situation, layout in places:
            if only and not any(
                re.search(only, named(situation, layout, first, second)) for first in VERBS for second in VERBS
            ):
                continue
            firsts = VERBS if full else dice.sample([verb for verb in VERBS if not verb.foreign], 5)
            rows.append(_situation(pool, dice, Plan(situation, layout, firsts), only, each))
            if full:
                print(f"    {' | '.join(rows[-1].cells())}", *rows[-1].failures, sep="\n    ", flush=True)
        total = _total(rows)
        caught = sum(_caught(pool, verb, second) for verb, second in CONTROLS)
    total.control = f"{caught} of {len(CONTROLS)} caught"
    if caught != len(CONTROLS):
        total.failures.append("a wrong program was not caught")
    return [*rows, total] if full else [total]


def named(situation, layout, first, second):
    return f"{situation.name}, {layout}: {first.name}, {second.name}"


def _situation(pool, dice, plan, only, each):
    begin, team = time.monotonic(), plan.team
    jobs = [
        job
        for job in plan.jobs
        if not only or re.search(only, named(team.situation, team.layout, *job[:2]))
    ]
    if each:
        jobs = dice.sample(jobs, min(each, len(jobs)))
    row = Row("11", team.situation.name, team.layout, 0, 0, 0, 0)
    for job in [pool.submit(team.try_pair, *job) for job in jobs]:
        run, failures = job.result()
        row.points += 1
        row.kills += bool(run and run.reached)
        row.acks += sum(answer.done() for answer in run.answers) if run else 0
        row.lost += bool(failures)
        row.failures += failures
    team.close()
    row.seconds = time.monotonic() - begin
    return row


def _total(rows):
    total = Row("11", "two at once", str(FAST), 0, 0, 0, 0)
    for row in rows:
        for name in ("points", "kills", "acks", "lost", "seconds", "failures"):
            setattr(total, name, getattr(total, name) + getattr(row, name))
    # A point that is not reached proves nothing. A first verb whose work is already done makes
    # fewer calls.
    if total.kills < total.points * 0.9:
        total.failures.append(f"only {total.kills} of {total.points} points were reached")
    return total


# Wrong programs: each does in three calls what a verb does, without a lock.
MOVE = """
import os, sys
if os.path.exists(sys.argv[1]):
    was = open(sys.argv[1], "rb").read()
    os.makedirs(sys.argv[2], exist_ok=True)
    open(sys.argv[2] + "/log", "wb").write(was)
    os.unlink(sys.argv[1])
"""
HALF = """
import os, sys
folder, name = os.path.split(sys.argv[1])
if os.path.exists(sys.argv[1]):
    os.rename(sys.argv[1], f"{folder}/.annals-{name}.removed")
"""
REWRITE = """
import os, sys
was = open(sys.argv[1], "rb").read()
open(sys.argv[1] + ".new", "wb").write(was + b"more\\n")
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""
CONTROLS = (
    (Verb("a blind archive", python(MOVE, "{log}", "{base}/state/archive"), fills="archive"), "a vanishing archive"),
    (Verb("a blind archive", python(MOVE, "{log}", "{base}/state/archive"), fills="archive"), "a log kept open"),
    (Verb("a blind delete", python(MOVE, "{log}", "{base}/state/undo/20260101T000000-log"), fills="trash"), "a foreign append"),
    (Verb("a blind delete", python(MOVE, "{log}", "{base}/state/undo/20260101T000000-log"), fills="trash"), "a log kept open"),
    (Verb("a blind rewrite", python(REWRITE, "{log}")), "append"),
    (Verb("a blind rewrite", python(REWRITE, "{log}")), "a log kept open"),
    (Verb("half a removal", python(HALF, "{log}")), "a foreign append"),
)


def _caught(pool, wrong, second):
    """Returns whether a wrong program loses data next to another one."""
    second = next(verb for verb in VERBS if verb.name == second)
    team = Team(SITUATIONS[0], "chorus")
    numbers = range(len(team.scene().points(wrong)))
    jobs = [pool.submit(team.try_pair, wrong, second, number) for number in numbers]
    failures = [what for job in jobs for what in job.result()[1]]
    team.close()
    signs = ("is gone", "files are gone", "nothing reports it")
    return any(sign in what for what in failures for sign in signs)


if __name__ == "__main__":
    from table import show

    found = gate(True, 1, *sys.argv[1:2], *map(int, sys.argv[2:3]))
    show(found)
    for row in found[:-1]:
        print(*row.failures, sep="\n")
