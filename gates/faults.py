"""Gate 12: no failed read is silent. Every call that reads from a root, the archive or annals' own
state fails once, under every verb that reads. Then the answer is the undisturbed one, or the program
reports the path on standard error and exits with 2; and the next run gives the undisturbed answer.

Answers may not depend on the index, so a failed read of the index may be silent, and only that.
"""

import json
import os
import random
import re
import shutil
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

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
    ),
    "chorus": ("chorus-plain",),
    "clog": ("agents-todos-origin", "same-thread-twice"),
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
    situations: tuple = ()
    # Where it answers with JSON of its own.
    json: bool = True
    # Files that it writes below `{base}/out`, which are part of the answer.
    writes: bool = False

    @property
    def name(self):
        return " ".join(self.words) or "overview"


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
    Verb(("convert", "{id}", "--to", "{other}")),
    Verb(("convert", "{id}", "--to", "{other}", "--into", "{base}/out"), writes=True),
    Verb(("convert", "{layout}:{root}", "--to", "{other}", "--without-archived", "--into", "{base}/out"), writes=True),
)

# What is done to a root before it is read, and whether the index is used.
SITUATIONS = {
    "plain": ((), False),
    "archived": (
        (
            ("archive", "{kept}", "--apply"),
            ("archive", "{id}", "--keep-source", "--apply"),
            ("pin", "{id}"),
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
        for command in prepare:
            run = self.stage.run(self.spell(command))
            if run.returncode != 0:
                raise RuntimeError(f"{layout}, {situation}: {command}: {run.stderr.decode()}")
        self.aside = self.stage.base / "aside"
        if (self.stage.base / "state").exists():
            shutil.copytree(self.stage.base / "state", self.aside)

    def close(self):
        shutil.rmtree(self.stage.base, ignore_errors=True)

    def reset(self):
        """Puts back what runs change: the state directory, and what was written."""
        shutil.rmtree(self.stage.base / "out", ignore_errors=True)
        if not self.indexed:
            return
        shutil.rmtree(self.stage.base / "state", ignore_errors=True)
        if self.aside.exists():
            shutil.copytree(self.aside, self.stage.base / "state")

    def spell(self, words):
        other = "claude-code" if self.layout != "claude-code" else "clog"
        names = {"{id}": self.id, "{kept}": self.kept, "{other}": other, "{layout}": self.layout}
        return [_replaced(word, names) for word in words]

    def run(self, verb, as_json, around=()):
        head = ["--json"] if as_json else ["--color=never"]
        head += [] if self.indexed else ["--no-index"]
        words = [*head, *self.spell(verb.words)]
        if verb.words and verb.words[0].startswith("/"):
            words = self.spell(verb.words)
        run = self.stage.run(words, around)
        base = self.base.encode()
        files = {}
        if verb.writes:
            files = {
                path: content.replace(base, b"{base}")
                for path, content in self.stage.everything().items()
                if path.startswith("out/")
            }
        out, err = (text.replace(base, b"{base}") for text in (run.stdout, run.stderr))
        return Answer(run.returncode, out, err, files)

    def points(self, verb, as_json):
        """The undisturbed answer, and the calls that read on the way to it."""
        self.reset()
        trace = self.stage.base / "trace"
        around = (*TRACE, "-o", str(trace), "-e", f"trace={','.join(CALLS)}")
        answer = self.run(verb, as_json, around)
        found = points(trace.read_text(errors="replace"), self.base)
        trace.unlink()
        return answer, found

    def fail(self, verb, as_json, point, error):
        """Fails one call."""
        self.reset()
        inject = f"inject={point.call}:error={error}:when={point.number}"
        only = ("-P", point.place, "-e", f"trace={point.call}", "-e", inject)
        around = (*TRACE, "-o", "/dev/null", *only)
        return self.run(verb, as_json, around)


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
    """What is wrong with an answer after a failed read; nothing if it is the undisturbed one or the
    path was reported."""
    if b"panicked" in answer.err:
        return "panic: " + answer.err.decode(errors="replace")[:300]
    if undisturbed.same(answer):
        return None
    if answer.code != 2:
        return f"silent: exit code {answer.code}: {answer.err.decode(errors='replace')[:200]}"
    if point.is_index:
        return f"the answer depends on the index: {answer.err.decode(errors='replace')[:200]}"
    if not named(answer.err, point):
        return f"path not named: {answer.err.decode(errors='replace')[:300]}"
    if as_json and answer.out and not in_json(answer):
        return f"not in the JSON: {answer.err.decode(errors='replace')[:200]}"
    return None


def named(err, point):
    """Whether a message names the path, or the directory that it lies in."""
    told = err.decode(errors="replace")
    return any(f"{{base}}/{path}" in told for path in (point.path, os.path.dirname(point.path)))


def in_json(answer):
    try:
        document = json.loads(answer.out)
    except ValueError:
        return False
    return isinstance(document, dict) and bool(document.get("problems"))


class Work:
    """Verbs on one root: what was tried and what was wrong."""

    def __init__(self, share):
        self.points, self.failures, self.reported = 0, [], 0
        self.share = share
        self.lock = threading.Lock()

    def add(self, where, outcome, reported):
        with self.lock:
            self.points += 1
            self.reported += reported
            if outcome:
                self.failures.append(f"{where}: {outcome}")


def one(scene, verb, as_json, work, dice, limit=None):
    """All points of a verb, or some of them."""
    undisturbed, found = scene.points(verb, as_json)
    form = "json" if as_json else "text"
    title = f"{verb.name}, {scene.layout}, {scene.situation}, {form}"
    if undisturbed.code not in (0, 1):
        skipped(title, undisturbed)
        return
    tries = [(point, error) for point in found for error in point.errors()]
    if limit is not None and len(tries) > limit:
        tries = dice.sample(tries, limit)
    for point, error in tries:
        answer = scene.fail(verb, as_json, point, error)
        where = f"{title}, {point.call} {point.number} {error} {point.path}"
        outcome = judge(undisturbed, answer, point, as_json)
        if not outcome and scene.indexed:
            # What could not be read must not be remembered as if it were not there.
            shutil.rmtree(scene.stage.base / "out", ignore_errors=True)
            again = scene.run(verb, as_json)
            if not undisturbed.same(again):
                outcome = f"remembered: the next run differs: exit code {again.code}"
        work.add(where, outcome, answer.code == 2)


SKIPPED = []


def skipped(title, answer):
    SKIPPED.append(f"{title}: {answer.err.decode(errors='replace').strip()[:160]}")


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
    """A reader that leaves out what it cannot read must be caught."""
    python = shutil.which("python3")
    verb = Verb((python, "-I", "-S", "-c", SWALLOWS, "{root}"), json=False)
    work, scene = Work(1), Scene("chorus", "plain")
    try:
        one(scene, verb, False, work, random.Random(1))
    finally:
        scene.close()
    return any("silent" in failure for failure in work.failures)


def gate(full, seed=1, only=None, limit=None):
    begin = time.monotonic()
    SKIPPED.clear()
    jobs = []
    for situation in SITUATIONS:
        for layout in LAYOUTS:
            for verb in VERBS:
                name = f"{situation}, {layout}: {verb.name}"
                if situation not in (verb.situations or SITUATIONS):
                    continue
                if layout in verb.layouts and (not only or re.search(only, name)):
                    jobs.append((situation, layout, verb))
    dice = random.Random(seed)
    if not full:
        jobs = dice.sample(jobs, min(24, len(jobs)))
        jobs.sort(key=lambda job: job[:2])
    total = Row("12", "every read fails", "all layouts", 0, None, 0, 0)
    rows, groups = [], {}
    for situation, layout, verb in jobs:
        groups.setdefault((situation, layout), []).append(verb)
    with ThreadPoolExecutor(THREADS) as pool:
        for row in pool.map(lambda it: _group(*it, full, seed, limit if full else 8), groups.items()):
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
    situation, layout = key
    begin = time.monotonic()
    dice, work = random.Random(f"{seed} {key}"), Work(1)
    scene = Scene(layout, situation)
    try:
        for verb in verbs:
            for as_json in (False, True) if verb.json else (False,):
                if full or as_json == (dice.random() < 0.5 and verb.json):
                    one(scene, verb, as_json, work, dice, limit)
    finally:
        scene.close()
    row = Row("12", f"every read fails, {situation}", layout, work.points, None, work.reported)
    row.failures, row.lost = work.failures, len(work.failures)
    row.seconds = time.monotonic() - begin
    return row


def main():
    import stage
    from table import show

    import tempfile
    from pathlib import Path

    arguments = sys.argv[1:]
    full = "--full" in arguments
    words = [word for word in arguments if not word.startswith("-")]
    with tempfile.TemporaryDirectory() as aside:
        stage.PROGRAM = Path(shutil.copy2(stage.PROGRAM, aside))
        limit = next((int(word[8:]) for word in arguments if word.startswith("--limit=")), None)
        found = gate(full, only=words[0] if words else None, limit=limit)
    show(found)
    kinds = Counter(failure.split(": ")[1].split(":")[0] for failure in found[-1].failures)
    for failure in found[-1].failures:
        print(failure)
    print(dict(kinds))
    for title in SKIPPED:
        print("NOT RUN", title)


if __name__ == "__main__":
    main()
