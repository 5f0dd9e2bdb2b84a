"""Gate 12: no failed read is silent. Every call that reads from a root, the archive or annals' own
state fails once, under every verb that reads. Then the answer is the undisturbed one, or the program
reports the path on standard error and exits with 2; and the next run gives the undisturbed answer.

The same under every verb that writes: it ends as the undisturbed run does and leaves what that leaves, or
it exits with 2 and names the path. Then a second run, undisturbed, leaves what the first was to leave, or
nothing that was there before is lost.

Answers may not depend on the index, so a failed read of the index may be silent, and only that.
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
from scripts import REGISTERS
from stage import REPOSITORY, Stage
from table import Row

# Calls that read. Those that wait, lock or write are none of this gate's business.
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
CALL = re.compile(r"^(\d+)\s+(\w+)\((.*)$")
TRACE = ("strace", "-f", "--seccomp-bpf", "-y", "-qq", "-s", "4096", "-e", "signal=none")
THREADS = 3

# Fixtures that are laid over each other: small roots that have a bit of everything.
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
}
LAYOUTS = tuple(ROOTS)
CHORUS = ("chorus",)


@dataclass(frozen=True)
class Verb:
    """A command line that reads. `{id}` is a session that is in the root, `{kept}` one that is only in
    the archive where there is one."""

    words: tuple
    layouts: tuple = LAYOUTS
    # Where it makes sense; everywhere if empty.
    situations: tuple = ()
    # It answers with JSON, too.
    json: bool = True
    # Files that it writes below `{base}/out`, which are part of the answer.
    writes: bool = False
    # It changes the root or the state directory, which are copied anew for each run.
    changes: bool = False
    # What it removes is meant to be gone.
    destroys: bool = False
    # It exits with 0 once it wrote what it was given: who tries again would write it twice. A session list that
    # it could not bring up to date is reported, and the next writer does that.
    acknowledges: bool = False
    # It answers each line of its input, and the answers are judged.
    answers: bool = False
    # It goes on until it is interrupted, which happens as soon as it has nothing more to do.
    endless: bool = False

    @property
    def name(self):
        return " ".join(word for word in self.words if word[0] != "<") or "overview"

    def fits(self, layout, situation):
        return layout in self.layouts and situation in (self.situations or SITUATIONS)


# Lines on standard input. The ids are given, so that every run writes the same.
FIRST_ID, SECOND_ID = ("5c7c2f4e-0d0f-4c4b-9a53-6f0a1d7b2e%d" % number for number in (21, 22))
FOLLOWED = (
    '<{"id":"%s","role":"user","content":"first"}\n{"id":"%s","role":"user","content":"second"}\n'
    % (FIRST_ID, SECOND_ID)
)
FOLLOWED_ELSEWHERE = '<{"session":"{id}","id":"%s","role":"user","content":"first"}\n' % FIRST_ID

VERBS = (
    Verb(()),
    Verb(("projects",)),
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
    Verb(("workspaces",), CHORUS),
    Verb(("agents",), CHORUS),
    Verb(("settings",), CHORUS),
    Verb(("export", "{id}", "--format", "markdown", "-o", "-"), json=False),
    Verb(("export", "{kept}", "--format", "html", "-o", "-"), json=False),
    Verb(("export", "{id}", "--format", "json", "-o", "-"), json=False),
    Verb(("export", "{kept}", "--format", "jsonl", "-o", "-"), json=False),
    Verb(("watch", "{id}", "--last", "3"), endless=True),
    Verb(("watch", "{kept}", "--last", "3"), endless=True),
    Verb(("watch", "--all", "--last", "5", "--cost"), endless=True),
    Verb(("append", "{id}", "--follow", FOLLOWED), json=False, changes=True, answers=True),
    Verb(("append", "--follow", FOLLOWED_ELSEWHERE), json=False, changes=True, answers=True),
    Verb(("convert", "{id}", "--to", "{other}")),
    Verb(("convert", "{id}", "--to", "{other}", "--into", "{base}/out"), writes=True),
    Verb(("convert", "{layout}:{root}", "--to", "{other}", "--without-archived", "--into", "{base}/out"), writes=True),
)

# Logs of several sessions cannot lose one of them.
PARTED = ("claude-code", "chorus", "clog")
ARCHIVED = ("archived",)
PLAIN = ("plain",)
WRITERS = (
    Verb(("append", "{id}", "-m", "gate"), situations=PLAIN, changes=True, acknowledges=True),
    Verb(("fork", "{id}", "--title", "gate"), situations=PLAIN, changes=True),
    Verb(("import", "{base}/work/export.jsonl", "--fresh-ids"), situations=PLAIN, changes=True),
    Verb(("keep",), situations=(*PLAIN, *ARCHIVED), changes=True),
    Verb(("archive", "{id}", "--live", "--apply"), PARTED, PLAIN, changes=True),
    Verb(("restore", "{kept}", "--apply"), situations=ARCHIVED, changes=True),
    Verb(("delete", "{id}", "--apply"), PARTED, PLAIN, changes=True),
    Verb(("delete", "--undo", "{gone}"), PARTED, ARCHIVED, changes=True),
    Verb(("clean", "--older-than", "1d", "--live", "--apply"), situations=PLAIN, changes=True),
    Verb(("repair", "--apply"), situations=PLAIN, changes=True),
    Verb(("archive", "--forget", "{kept}", "--apply"), situations=ARCHIVED, changes=True, destroys=True),
)

# What is done to a root before it is read, and whether the index is used.
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
    """One call: its name, its number among those of its name that `strace` finds by `place`, and the
    path below the stage that it reads."""

    call: str
    number: int
    place: str
    path: str

    @property
    def is_index(self):
        return self.path.startswith("state/catalogue")

    def errors(self):
        return ("EIO", "EACCES") if self.call in ("open", "openat", "openat2") else ("EIO",)


@dataclass
class Answer:
    """What a run said, without the place where it ran."""

    code: int
    out: bytes
    err: bytes
    files: dict = field(default_factory=dict)

    def said(self):
        return self.err.decode(errors="replace").strip()[:300]

    def same(self, other):
        return (self.code, self.out, self.files) == (other.code, other.out, other.files)


class Scene:
    """A prepared root on which verbs are run, again and again from the same state."""

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
        # Those with most to read.
        sessions.sort(key=lambda it: (-it["agents"], -it["bytes"], it["id"], it["file"]))
        unique = [it for it in sessions if [o["id"] for o in sessions].count(it["id"]) == 1]
        self.id = unique[0]["id"]
        self.kept = unique[-1]["id"]
        # A log of several sessions cannot lose one.
        self.gone = unique[1]["id"] if layout != "orchestrator" else None
        for command in prepare:
            if "{gone}" in command and not self.gone:
                continue
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
        # Ids that were there before; others are made by each run.
        self.ids = set(UUID.findall(b"\n".join(path.encode() + b for path, b in self.stage.everything().items())))
        self.before = self.unpacked()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.stage.base, ignore_errors=True)

    def reset_files(self, verb):
        """Puts back what a verb wrote to the root, and removes what it wrote elsewhere."""
        shutil.rmtree(self.stage.base / "out", ignore_errors=True)
        if verb.changes:
            shutil.rmtree(self.stage.root)
            shutil.copytree(self.aside_root, self.stage.root, symlinks=True)

    def reset(self, verb):
        """Puts back what runs change: the state directory, and what was written."""
        self.reset_files(verb)
        if not verb.changes and not self.indexed:
            return
        shutil.rmtree(self.stage.base / "state", ignore_errors=True)
        if self.aside.exists():
            shutil.copytree(self.aside, self.stage.base / "state")

    def picture(self):
        """What a run left: the root, the names in the state directory with its documents, and what the archive
        lists. A pack is another file each time, though it holds the same."""
        found = {}
        for path, content in self.stage.tree().items():
            # How far packs were read back is no result.
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

    def masked(self, text):
        text = text.replace(self.base.encode(), b"{base}")
        return UUID.sub(lambda it: it.group() if it.group() in self.ids else b"{id}", text)

    def unpacked(self):
        """Every file, with what can be had from the archive."""
        listed = self.stage.run(["--json", "--no-index", "archive", "--list"])
        packs = json.loads(listed.stdout).get("archived", ()) if listed.stdout else ()
        for number, pack in enumerate(packs):
            self.stage.run(["restore", pack["pack"], "--to", f"{{base}}/out/{number}", "--apply"])
        found = self.stage.everything()
        shutil.rmtree(self.stage.base / "out", ignore_errors=True)
        return {path: content for path, content in found.items() if not path.endswith((".pack", "/members"))}

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
                path: INODE.sub(b"", content.replace(base, b"{base}"))
                for path, content in self.stage.everything().items()
                if path.startswith(tops)
            }
        out, err = (text.replace(base, b"{base}") for text in (run.stdout, run.stderr))
        return Answer(run.returncode, out, err, files)

    def until_idle(self, words, around):
        """Runs a program that does not end by itself, and interrupts it once it waits."""
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
        """The undisturbed answer, and the calls that read on the way to it."""
        self.reset(verb)
        trace = self.stage.base / "trace"
        around = (*TRACE, "-o", str(trace), "-e", f"trace={','.join(CALLS)}")
        answer = self.run(verb, as_json, around)
        found = points(trace.read_text(errors="replace"), self.base)
        trace.unlink()
        return answer, found

    def fail(self, verb, as_json, point, error):
        """Fails one call."""
        self.reset(verb)
        inject = f"inject={point.call}:error={error}:when={point.number}"
        only = ("-P", point.place, "-e", f"trace={point.call}", "-e", inject)
        around = (*TRACE, "-o", "/dev/null", *only)
        return self.run(verb, as_json, around)


# Looks in a row that find a program asleep before it is interrupted, and the seconds between them.
ASLEEP, APART = 10, 0.02


def interrupt_when_idle(process, is_traced):
    """Interrupts a program, perhaps below `strace`, once all its threads sleep for a while."""
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


# The inodes of logs that companions name are new in every run.
INODE = re.compile(rb',"inode":\d+')


def _replaced(text, names):
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def points(trace, base):
    """Each call that reads below a stage, but of many that are alike only the first two and the last."""
    seen, found = Counter(), {}
    for line in trace.splitlines():
        call = CALL.match(line)
        if not call:
            continue
        thread, name, arguments = call.groups()
        place, path = touched(name, arguments)
        seen[thread, name, place] += 1
        # What is not there is no fault, and may be made meanwhile.
        if path.startswith(f"{base}/") and "ENOENT" not in arguments:
            inner = os.path.normpath(path)[len(base) + 1 :]
            if inner.split("/")[0] in ("root", "state", "home"):
                point = Point(name, seen[thread, name, place], place, inner)
                found.setdefault((name, inner), []).append(point)
    return [point for same in found.values() for point in dict.fromkeys((*same[:2], same[-1]))]


def touched(call, arguments):
    """The path by which `strace` knows a call, and the one that the call reads: it may be that of a
    descriptor, a name, or a name within a descriptor."""
    quoted = r"\"((?:[^\"\\]|\\.)*)\""
    within = re.match(rf"(?:\d+|AT_FDCWD)<([^>]*)>(?:\(deleted\))?, {quoted}", arguments)
    if within and call in RELATIVE:
        folder, name = within.groups()
        return (name, name) if name.startswith("/") else (folder, f"{folder}/{name}")
    named = re.search(rf"\d+<([^>]*)>|{quoted}", arguments)
    path = (named.group(1) or named.group(2) or "") if named else ""
    return path, path


def judge(undisturbed, answer, point, as_json):
    """What is wrong with an answer after a failed read; nothing if it is the undisturbed one, or if the
    path was reported."""
    if b"panicked" in answer.err:
        return f"panic: {answer.said()}"
    if undisturbed.same(answer):
        return None
    if answer.code != 2:
        return f"silent: exit code {answer.code}: {answer.said()}"
    if point.is_index:
        return f"the answer depends on the index: {answer.said()}"
    # A directory is named for what could not be found out of a file in it.
    named = (point.path, os.path.dirname(point.path))
    if not any(f"{{base}}/{path}" in answer.err.decode(errors="replace") for path in named):
        return f"path not named: {answer.said()}"
    streams = answer.out.count(b"\n{") > 0 or answer.out.startswith(b'{"event"')
    if as_json and answer.out and not (in_stream if streams else in_json)(answer.out):
        return f"not in the JSON: {answer.said()}"
    return None


def in_json(out):
    try:
        document = json.loads(out)
    except ValueError:
        return False
    return isinstance(document, dict) and bool(document.get("problems"))


def judge_change(scene, verb, as_json, undisturbed, goal, answer, point):
    """What is wrong with what a verb that writes said and left after a failed read. The goal is what the
    undisturbed run left, as it is compared."""
    if b"panicked" in answer.err:
        return f"panic: {answer.said()}"
    left = goal.of(scene.picture())
    wrong = differences(goal.left, left)
    if answer.code == undisturbed.code:
        if wrong and not (verb.acknowledges and all(map(is_register, wrong))):
            return f"silent: another result: {', '.join(wrong)[:300]}"
        if not wrong:
            return None
    elif answer.code != 2:
        return f"silent: exit code {answer.code}: {answer.said()}"
    named = (point.path, os.path.dirname(point.path))
    if not any(f"{{base}}/{path}" in answer.err.decode(errors="replace") for path in named):
        return f"path not named: {answer.said()}"
    if as_json and answer.out and not in_json(answer.out):
        return f"not in the JSON: {answer.said()}"
    scene.run(verb, as_json)
    if verb.destroys or goal.of(scene.picture()) == goal.left:
        return None
    # What a session list said goes with its sessions.
    kept = {
        path: content
        for path, content in scene.before.items()
        if not path.startswith("state/") and not is_register(path)
    }
    lost = oracle.lost(kept, scene.unpacked(), SimpleNamespace(removes=(), changes=("root/config.json",)))
    return f"lost: {lost[0]}" if lost else None


def differences(goal, left):
    names = sorted(name for name in goal.keys() | left.keys() if goal.get(name) != left.get(name))
    return [name.decode(errors="replace") for name in names]


def is_register(path):
    return any(fnmatch(path, pattern) for pattern in REGISTERS)


class Goal:
    """What an undisturbed run leaves. Where two of them differ, as programs do that make ids of their own form,
    only the names of files and the number of lines in each count."""

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
    """Whether a line of a stream of events reports a problem."""
    return any(json.loads(line).get("event") == "problem" for line in out.splitlines())


class Tally:
    """What was tried on one root."""

    def __init__(self):
        self.points = self.reported = 0
        self.failures = []


def attempt(scene, verb, as_json, tally, dice, limit=None):
    """Fails the reads of a verb, all or so many of them, one in each run."""
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
            wrong = judge(undisturbed, answer, point, as_json)
        if not wrong and scene.indexed and not goal:
            # What could not be read must not be remembered as if it were not there.
            scene.reset_files(verb)
            again = scene.run(verb, as_json)
            if not undisturbed.same(again):
                wrong = f"remembered: the next run differs: exit code {again.code}"
        tally.points += 1
        tally.reported += answer.code == 2
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


def control():
    """Whether a reader that leaves out what it cannot read is caught."""
    python = shutil.which("python3")
    verb = Verb((python, "-I", "-S", "-c", SWALLOWS, "{root}"), json=False)
    tally = Tally()
    with Scene("chorus", "plain") as scene:
        attempt(scene, verb, False, tally, random.Random(1))
    return any("silent" in failure for failure in tally.failures)


def gate(full, seed=1, only=None, limit=None):
    """`limit` is how many reads of each verb fail at most; all in the full form."""
    begin = time.monotonic()
    groups = {}
    for situation in SITUATIONS:
        for layout in LAYOUTS:
            for verb in (*VERBS, *WRITERS):
                name = f"{situation}, {layout}: {verb.name}"
                if verb.fits(layout, situation) and (not only or re.search(only, name)):
                    groups.setdefault((situation, layout), []).append(verb)
    if not full:
        # A few verbs in every situation of every layout.
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
                print(f"    {' | '.join(row.cells())}", flush=True)
    total.lost = len(total.failures)
    caught = control()
    total.control = "1 of 1 caught" if caught else "not caught"
    if not caught:
        total.failures.append("the reader that leaves out what it cannot read was not caught")
    total.seconds = time.monotonic() - begin
    return [*rows, total] if full else [total]


def _group(key, verbs, full, seed, limit):
    """All verbs on one root."""
    situation, layout = key
    begin = time.monotonic()
    dice, tally = random.Random(f"{seed} {key}"), Tally()
    with Scene(layout, situation) as scene:
        for verb in verbs:
            forms = (False, True) if verb.json else (False,)
            for as_json in forms if full else (dice.choice(forms),):
                attempt(scene, verb, as_json, tally, dice, limit)
            if verb.changes:
                # Verbs that read are all run on the same root.
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
        # A build that is made meanwhile must not change what is tested.
        stage.PROGRAM = Path(shutil.copy2(stage.PROGRAM, aside))
        found = gate("--full" in arguments, only=only, limit=limit)
    show(found)
    for failure in found[-1].failures:
        print(failure)
    print(dict(Counter(failure.split(": ")[1] for failure in found[-1].failures)))
