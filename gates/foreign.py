"""Gate 10: annals next to programs that follow the orchestrator's own lock protocol.

The protocol is that of `orchestrator_writer.py`: lock `FILE.lock`, then append to the log, or copy
it, add a record and rename the copy over it. Such writers and annals processes write to one log
concurrently, and all of them are killed at random. Afterwards every record that a writer reported
must be in the log. Messages of annals have an id and thinking, which the log cannot store; `annals
show` must return both, wherever the message ended up.

The protocol itself loses records between two writers that remove the lock file (see
`jsonl/lock_file.rs`). So records of those writers count only if they leave the lock file; records
of annals always count. The control is a writer that takes no lock, as annals once did. The control
of what `show` returns is a message whose data in the companion file names another line.

The same for OpenCode's database: annals, a program that inserts rows, and as the control one that
renames a copy of the database over it (`database_writer.py`). And for the logs of programs that append lines
without a lock: the control copies the log, adds a line and renames the copy over it (`line_writer.py`).
"""

import contextlib
import functools
import json
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import stage
from scripts import PLAIN
from table import Row

WRITER = Path(__file__).with_name("orchestrator_writer.py")
DATABASE_WRITER = Path(__file__).with_name("database_writer.py")
LINE_WRITER = Path(__file__).with_name("line_writer.py")
FIXTURES = Path(__file__).parent.parent / "fixtures"
DATABASE = FIXTURES / "opencode" / "1.18-s02-tools" / "opencode.db"
# Layouts whose programs append lines without a lock.
WITHOUT_LOCK = ("codex", "gemini", "pi", "qwen", "copilot")
PROJECT = "/work/app"
# base64url(sha256(PROJECT))[:20]
FOLDER = "cEZ-_y4KI2SX8Gk5AceC"


class Log:
    """A log of today to which several programs write."""

    layout, writer = "orchestrator", WRITER

    def __init__(self):
        self.base = Path(tempfile.mkdtemp(prefix="annals-gate-"))
        folder = self.base / "root" / "projects" / FOLDER
        folder.mkdir(parents=True)
        self.path = folder / "2026-11-15.jsonl"
        self.path.touch()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.base, ignore_errors=True)

    def records(self):
        return self.path.read_text(errors="replace")

    def annals(self, *arguments, stdin=subprocess.DEVNULL):
        environment = {
            "ANNALS_STATE_DIR": str(self.base / "state"),
            "HOME": str(self.base),
            "PATH": "/usr/bin:/bin",
        }
        command = [str(stage.PROGRAM), "--no-index", "--root", f"{self.layout}:{self.base / 'root'}"]
        return subprocess.Popen(
            [*command, *arguments],
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
        )

    def append(self, text):
        """Starts an append of a message with this text, its thinking and its id."""
        message = {
            "role": "assistant",
            "id": text,
            "content": [{"type": "thinking", "thinking": thinking(text)}, {"type": "text", "text": text}],
        }
        with tempfile.TemporaryFile() as stdin:
            stdin.write(json.dumps(message).encode())
            stdin.seek(0)
            return self.annals("append", str(self.path), stdin=stdin)

    def shown(self):
        """The blocks of the messages that annals reads, by id."""
        out, error = self.annals("show", str(self.path), "--all", "--json").communicate()
        if not out:
            raise RuntimeError(error.decode(errors="replace"))
        entries = json.loads(out)["entries"]
        return {entry["id"]: [block.get("text") for block in entry["blocks"]] for entry in entries}

    def misplace(self, text):
        """Makes the companion's entry of a message name another line."""
        companion = self.path.with_suffix(".annals")
        lines = companion.read_text().splitlines(keepends=True)
        other = [re.sub('"sum":"[0-9a-f]*"', f'"sum":"{"0" * 16}"', line, count=1) for line in lines]
        own = f'"id":"{text}"'
        companion.write_text("".join(new if own in old else old for old, new in zip(lines, other)))


class Database(Log):
    """A database of a session to which several programs write."""

    layout, writer = "opencode", DATABASE_WRITER

    def __init__(self):
        self.base = Path(tempfile.mkdtemp(prefix="annals-gate-"))
        (self.base / "root").mkdir()
        self.path = Path(shutil.copy(DATABASE, self.base / "root"))
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            (self.id,) = database.execute("SELECT id FROM session ORDER BY id LIMIT 1").fetchone()

    def records(self):
        """The rows of all messages; of a damaged database none."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as database:
            try:
                (fault,) = database.execute("PRAGMA integrity_check(1)").fetchone()
                rows = database.execute("SELECT data FROM part").fetchall()
            except sqlite3.Error as error:
                return str(error)
        return "\n".join(data for (data,) in rows) if fault == "ok" else fault

    def append(self, text):
        return self.annals("append", self.id, "--live", "-m", f'"{text}"')


class Lines(Log):
    """A log of another program that appends whole lines to it."""

    writer = LINE_WRITER

    def __init__(self, layout):
        self.layout = layout
        self.base = Path(tempfile.mkdtemp(prefix="annals-gate-"))
        shutil.copytree(FIXTURES / layout / PLAIN[layout], self.base / "root")
        out, _ = self.annals("sessions", "--json").communicate()
        self.id = json.loads(out)["sessions"][0]["id"]
        out, _ = self.annals("show", self.id, "--last", "1", "--json").communicate()
        self.path = Path(json.loads(out)["session"]["file"])

    def append(self, text):
        return self.annals("append", self.id, "--live", "-m", text)


def thinking(text):
    return f"thinking of {text}"


class Writers:
    """Threads that keep writers running until a deadline, and the records that they reported."""

    def __init__(self, log, seconds, seed, options):
        self.log, self.until, self.options = log, time.monotonic() + seconds, options
        self.random = random.Random(seed)
        self.acknowledged = {}
        self.kills = 0
        self.errors = []

    def run(self, kinds):
        threads = []
        for number, kind in enumerate(kinds):
            name = f"{kind}{number}"
            self.acknowledged[name] = []
            work = self.annals if kind == "annals" else self.foreign
            threads.append(threading.Thread(target=work, args=(kind, name)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def annals(self, _, name):
        number = 0
        while time.monotonic() < self.until:
            text = f"{name}-{number}-end"
            number += 1
            process = self.log.append(text)
            if self.random.random() < 0.2:
                time.sleep(self.random.random() * 0.02)
                process.kill()
                self.kills += 1
            _, error = process.communicate()
            if process.returncode == 0:
                self.acknowledged[name].append(text)
            elif process.returncode > 0:
                self.errors.append(error.decode(errors="replace"))

    def foreign(self, kind, name):
        run = 0
        while time.monotonic() < self.until:
            run += 1
            command = [sys.executable, str(self.log.writer), kind, str(self.log.path), f"{name}.{run}", "1000000"]
            process = subprocess.Popen(
                [*command, *self.options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            # On a busy machine it may need longer to start than it may run.
            first = process.stdout.readline()
            time.sleep(min(0.2 + self.random.random() * 0.6, max(0, self.until - time.monotonic())))
            process.send_signal(signal.SIGKILL)
            self.kills += 1
            lines = (first + process.communicate()[0]).split("\n")
            # The last line may have been truncated by the kill.
            quote = '"' * (self.log.layout == "orchestrator")
            self.acknowledged[name] += [f"{quote}{line}{quote}" for line in lines[:-1]]

    def lost(self, counts):
        records = self.log.records()
        names = [name for name in self.acknowledged if counts(name)]
        return [text for name in names for text in self.acknowledged[name] if text not in records]

    def own(self):
        """The acknowledged messages of annals."""
        names = [name for name in self.acknowledged if name.startswith("annals")]
        return [text for name in names for text in self.acknowledged[name]]

    def unread(self):
        """Messages of annals that are not read with their id and thinking."""
        shown = self.log.shown()
        return [text for text in self.own() if shown.get(text) != [thinking(text), text]]

    def check_companion(self, row):
        """Adds the messages that are not read back whole, and the control of that."""
        unread = self.unread()
        row.lost += len(unread)
        row.failures += [f"not read with its id and thinking: {text}" for text in unread]
        if unread or not self.own():
            return
        last = self.own()[-1]
        self.log.misplace(last)
        caught = self.unread() == [last]
        row.control = "1 misplaced, caught" if caught else "not caught"
        row.failures += [] if caught else ["a misplaced companion entry was not noticed"]


def race(what, kinds, seconds, seed, options=(), counts=lambda name: True, log=Log):
    begin = time.monotonic()
    with log() as log:
        writers = Writers(log, seconds, seed, list(options))
        writers.run(kinds)
        lost = writers.lost(counts)
        acknowledged = sum(map(len, writers.acknowledged.values()))
        row = Row("10", what, "disk", kills=writers.kills, acks=acknowledged, lost=len(lost))
        row.seconds = time.monotonic() - begin
        if "annals" in kinds and log.layout == "orchestrator":
            writers.check_companion(row)
        for name, texts in writers.acknowledged.items():
            if not texts:
                row.failures.append(f"{what}: {name} wrote nothing: {writers.errors[:3]}")
        return row, lost


def gate(full, seed):
    seconds = 120 if full else 4
    kinds = ["annals", "annals", "annals", "copy", "append"]
    rows = []
    row, lost = race("beside the lock protocol", kinds, seconds, seed, ["--keep-lock"])
    row.failures += [f"lost {text}" for text in lost]
    rows.append(row)
    row, lost = race(
        "and lock files removed", kinds, seconds, seed, counts=lambda name: name.startswith("annals")
    )
    row.failures += [f"lost {text}" for text in lost]
    rows.append(row)
    control, lost = race(
        "control", ["unlocked", "copy"], min(seconds, 4), seed, ["--keep-lock"], lambda name: "unlocked" in name
    )
    row.control += f"; {len(lost)} lost, caught" if lost else "; none lost, not caught"
    row.failures += control.failures
    row.failures += [] if lost else ["a writer that takes no lock lost nothing"]
    return [*rows, databases(seconds, seed), *lines(seconds, seed)]


def databases(seconds, seed):
    row, lost = race("one database", ["annals", "annals", "annals", "insert"], seconds, seed, log=Database)
    row.failures += [f"lost {text}" for text in lost]
    control, lost = race("control", ["insert", "copy"], min(seconds, 4), seed, log=Database)
    row.control = f"{len(lost)} lost, caught" if lost else "none lost, not caught"
    row.failures += control.failures
    row.failures += [] if lost else ["a writer that replaces the database lost nothing"]
    return row


def lines(seconds, seed):
    """Yields a row for each layout whose program appends lines."""
    for layout in WITHOUT_LOCK:
        log = functools.partial(Lines, layout)
        row, lost = race(f"one log, {layout}", ["annals", "annals", "append"], seconds / 2, seed, log=log)
        row.failures += [f"lost {text}" for text in lost]
        control, lost = race("control", ["append", "copy"], min(seconds, 4), seed, log=log)
        row.control = f"{len(lost)} lost, caught" if lost else "none lost, not caught"
        row.failures += control.failures
        row.failures += [] if lost else [f"a writer that replaces the log of {layout} lost nothing"]
        yield row
