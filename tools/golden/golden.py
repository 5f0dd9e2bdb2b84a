#!/usr/bin/env python3
"""Records what the program prints and writes, to compare two builds of it.

    golden.py record OUT [--program PATH] [--only PATTERN] [--history SIZE] [--jobs N]
    golden.py compare BEFORE AFTER

A record is a directory with one text file per root: the fixtures, and a generated history. The file
has every verb of `READS` with its exit code, output and errors in four forms (a terminal of 60 and
of 100 columns, a pipe, JSON), and every verb of `WRITES` with its output and a hash of each file
that it left. Time, time zone and home are fixed. Paths and generated ids are replaced by names in
order of appearance, so two records of one program are equal. The roots are copied to one fixed
path, because folders are named after paths, so only one record can be made at a time. `program.txt`
has the output that depends on no root: help and prices.

Each reading verb runs with the index and without. If the answers differ, the record shows it.
"""

import argparse
import datetime
import difflib
import fcntl
import fnmatch
import hashlib
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
# The directory to which roots are copied.
PLACE = Path("/tmp/annals-golden")
LAYOUTS = ("claude-code", "chorus", "clog", "orchestrator")
NOW = "2026-11-15T12:00:00Z"
# Modification time of every file of a root: 2026-11-14T00:00:00Z.
SETTLED = 1_794_614_400

# Verbs that only read. {id} is the first session of the root, {message} one of its messages.
READS = (
    "",
    "projects",
    "sessions",
    "sessions --since 2026-01-01",
    "conversations",
    "show {id}",
    "show {id} --all",
    "show {id} --last 3",
    "show {id}@{message}",
    "tree {id}",
    "search the",
    "search role:user",
    "search nothing-has-this-word",
    "cost",
    "cost --by model",
    "cost --by session",
    "cost --by project,day",
    "files {id}",
    "todos",
    "notes",
    "plans",
    "history",
    "documents",
    "export {id}",
    "export {id} --format html",
    "export {id} --format json",
    "export {id} --redact",
    "check --all",
    "repair",
    "clean --older-than 1d",
    "delete {id}",
    "delete --list",
    "archive {id}",
    "archive --list",
    "chorus workspaces",
    "chorus agents",
    "chorus settings",
    "index",
    "statusline",
    "show nonesuch",
    "sessions --nonesuch",
)

# Commands that depend on no root.
GENERAL = ("--version", "--help", "-h", "prices", "prices claude-opus-4-1", "completions bash")

# Commands that write, each list on a fresh copy of the root.
WRITES = (
    ("new --id 00000000-0000-4000-8000-00000000900d --cwd {work} -m question",),
    ("append {id} -m question",),
    ("fork {id}",),
    ("title {id} name",),
    ("tag {id} label",),
    ("notes add {id} remark",),
    ("todos add {id} task",),
    ("compact {id} --summary text",),
    ("delete {id} --apply", "delete --undo"),
    ("repair --apply", "repair --list"),
    ("archive {id} --apply", "archive --verify", "restore {id} --apply"),
    ("keep", "keep"),
    ("clean --older-than 1d --apply",),
    ("export {id} --format jsonl --output {work}/one.jsonl", "import {work}/one.jsonl --fresh-ids"),
    *((f"convert {{id}} --to {layout}:{{work}}/other --apply",) for layout in LAYOUTS),
)

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MADE_UP = re.compile(UUID.pattern + r"|msg_[0-9a-f]{32}|(?<=[^0-9a-z])a[0-9a-f]{16}(?=[^0-9a-z])")


class Stage:
    """A copy of a root, and the program run on it."""

    def __init__(self, program, layout, source, base):
        self.program, self.layout, self.source, self.base = program, layout, source, base
        self.root, self.work, self.home = base / "root", base / "work", base / "home"
        self.known = set()
        for path in files_below(source):
            self.known.update(MADE_UP.findall(path.read_bytes().decode(errors="replace")))
            self.known.update(MADE_UP.findall(str(path.relative_to(source))))
        self.reset()

    def reset(self):
        """Copies the root again."""
        shutil.rmtree(self.base, ignore_errors=True)
        shutil.copytree(self.source, self.root, symlinks=True)
        self.work.mkdir()
        self.home.mkdir()
        os.chmod(self.root, 0o700)
        for path in files_below(self.root):
            os.utime(path, (SETTLED, SETTLED), follow_symlinks=False)
        self.names = {}

    def environment(self):
        """Returns the environment of the program."""
        return {
            "ANNALS_NOW": NOW,
            "ANNALS_STATE_DIR": str(self.base / "state"),
            "HOME": str(self.home),
            "TMPDIR": str(self.work),
            "TZ": "UTC",
            "USER": "mira",
            "TERM": "xterm-256color",
            "PATH": os.environ["PATH"],
        }

    def run(self, arguments, columns=None):
        """Runs the program; with `columns`, its standard output is a terminal."""
        root = f"{self.layout}:{self.root}"
        command = [str(self.program), "--root", root, "--no-pager", *arguments]
        options = {
            "cwd": self.work,
            "env": self.environment(),
            "stdin": subprocess.DEVNULL,
            "stderr": subprocess.PIPE,
        }
        if columns is None:
            ran = subprocess.run(command, stdout=subprocess.PIPE, check=False, **options)
            return ran.returncode, self.mask(ran.stdout), self.mask(ran.stderr)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        with subprocess.Popen(command, stdout=theirs, **options) as process:
            os.close(theirs)
            with ThreadPoolExecutor(1) as errors:
                reading = errors.submit(process.stderr.read)
                printed = read_terminal(ours)
                told = reading.result()
        return process.returncode, self.mask(printed.replace(b"\r\n", b"\n")), self.mask(told)

    def mask(self, data):
        """Decodes output and masks what differs from run to run."""
        text = data.decode(errors="backslashreplace")
        encoded = re.sub(r"[^0-9A-Za-z]", "-", str(self.base))
        text = text.replace(str(self.base), "[BASE]").replace(encoded, "[BASE-]")
        # Some writers use the real time, whatever the environment says.
        for day in today():
            text = re.sub(day + r"(T\d\d[:-]\d\d[:-]\d\d([.-]\d+)?Z?)?", "[today]", text)
        return MADE_UP.sub(self.name, text)

    def name(self, found):
        """Returns the replacement of an id that is not in the source."""
        text = found.group()
        if text in self.known or text.startswith("00000000-"):
            return text
        return self.names.setdefault(text, f"[id {len(self.names) + 1}]")

    def plain(self, data):
        """Masks all generated ids by the same name, because their order among files is random."""
        return re.sub(r"\[id \d+\]", "[id]", self.mask(data))

    def tree(self):
        """Returns a line per file, without the index: name, mode, and a hash of the content."""
        lines = []
        for path in files_below(self.base):
            name = self.plain(str(path.relative_to(self.base)).encode())
            if path.is_symlink():
                lines.append(f"{name} -> {os.readlink(path)}")
            elif not path.name.startswith("index-"):
                lines.append(f"{name} {path.stat().st_mode & 0o777:o} {self.hash(path)}")
        return sorted(lines)

    def hash(self, path):
        """Returns the hash of a file's content, or "-" if that depends on generated ids or on the
        time."""
        if path.suffix in (".pack", ".annals"):
            return "-"
        return hashlib.sha256(self.plain(path.read_bytes()).encode()).hexdigest()[:16]


def today():
    """Returns the dates on which the record may have been made."""
    now = datetime.datetime.now(datetime.UTC)
    return [(now + datetime.timedelta(days)).strftime("%Y-%m-%d") for days in (-1, 0)]


def files_below(folder):
    """Returns all files below a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_symlink() or path.is_file())


def read_terminal(descriptor):
    """Reads everything that a program prints to a terminal until it ends."""
    parts = []
    while True:
        try:
            part = os.read(descriptor, 1 << 16)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    os.close(descriptor)
    return b"".join(parts)


def words_of(command, words):
    """Returns the arguments of a command, or None if the root has no value for a placeholder."""
    try:
        return [word.format(**words) for word in command.split()]
    except KeyError:
        return None


def subject(stage):
    """Returns a session and a message of the root, the same ones in every record."""
    words = {"work": str(stage.work)}
    try:
        rows = json.loads(stage.run(["--no-index", "sessions", "--json"])[1])["sessions"]
        words["id"] = min(row["id"] for row in rows if row.get("messages"))
        arguments = ["--no-index", "conversations", "--json"]
        rows = json.loads(stage.run(arguments)[1])["conversations"]
        words["message"] = min(row["leaf"] for row in rows if row["session"] == words["id"])
    except (ValueError, KeyError):
        pass
    return words


def record(program, layout, source, scratch):
    """Returns the text of the record of one root."""
    base = Path(scratch, f"{layout}-{source.name}")
    stage = Stage(program, layout, source, base)
    words = subject(stage)
    lines = []
    for command in READS:
        arguments = words_of(command, words)
        if arguments is None:
            continue
        for form, columns in (("60 columns", 60), ("100 columns", 100), ("pipe", None), ("json", None)):
            more = ["--json"] if form == "json" else []
            with_index = stage.run([*arguments, *more], columns)
            without = stage.run(["--no-index", *arguments, *more], columns)
            lines += shown(f"annals {command} ({form})", with_index)
            if without != with_index and command not in ("index",):
                lines += shown(f"annals {command} ({form}) DIFFERS WITHOUT INDEX", without)
    for commands in WRITES:
        stage.reset()
        for command in commands:
            arguments = words_of(command, words)
            if arguments is None:
                continue
            lines += shown(f"annals {command}", stage.run(arguments))
            lines += ["files:", *stage.tree(), ""]
    shutil.rmtree(base, ignore_errors=True)
    return "\n".join(lines)


def record_program(program, scratch):
    """Returns the record of commands without a root: help, prices."""
    folder = Path(scratch, "empty")
    folder.mkdir()
    stage = Stage(program, "claude-code", folder, Path(scratch, "program"))
    words = re.findall(r"^  ([a-z]+)  ", stage.run(["--help"])[1], re.MULTILINE)
    lines = []
    for command in (*GENERAL, *(f"{verb} --help" for verb in words)):
        for form, columns in (("80 columns", 80), ("pipe", None)):
            lines += shown(f"annals {command} ({form})", stage.run(command.split(), columns))
    return "\n".join(lines)


def shown(title, ran):
    """Formats a run as lines of text."""
    code, printed, told = ran
    lines = [f"$ {title}", f"exit code {code}"]
    for name, text in (("stdout", printed), ("stderr", told)):
        if text:
            lines += [f"--- {name}", text.rstrip("\n")]
    return [*lines, ""]


def roots(only, history, scratch):
    """Returns the roots to record: name, layout and directory."""
    for layout in LAYOUTS:
        for source in sorted((REPOSITORY / "fixtures" / layout).iterdir()):
            if source.is_dir() and fnmatch.fnmatch(f"{layout}/{source.name}", only):
                yield f"{layout}/{source.name}", layout, source
    if history and fnmatch.fnmatch("claude-code/generated", only):
        folder = Path(scratch, "generated")
        generator = REPOSITORY / "tools" / "gencorpus" / "gencorpus.py"
        command = [sys.executable, "-B", str(generator), "--out", str(folder), "--size", history]
        command += ["--sessions", "60", "--projects", "6", "--no-truth"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield "claude-code/generated", "claude-code", folder


def record_all(options):
    """Records all roots below a directory."""
    program = Path(options.program).resolve()
    out = Path(options.out)
    PLACE.mkdir(exist_ok=True)
    with open(PLACE / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        scratch = PLACE / "roots"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        write(out / "program.txt", record_program(program, scratch))

        def one(found):
            name, layout, source = found
            write(out / f"{name}.txt", record(program, layout, source, scratch))

        found = list(roots(options.only, options.history, scratch))
        with ThreadPoolExecutor(options.jobs) as pool:
            for _ in pool.map(one, found):
                pass
        shutil.rmtree(scratch)
    print(f"{len(found)} roots recorded in {options.out}")
    return 0 if found else 2


def write(path, text):
    """Writes a file of the record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def compare(options):
    """Prints the differences between two records."""
    before, after = Path(options.before), Path(options.after)
    names = {path.relative_to(before) for path in before.rglob("*.txt")}
    names |= {path.relative_to(after) for path in after.rglob("*.txt")}
    different = 0
    for name in sorted(names):
        texts = []
        for folder in (before, after):
            path = folder / name
            texts.append(path.read_text(encoding="utf-8") if path.exists() else "")
        if texts[0] == texts[1]:
            continue
        different += 1
        lines = [text.splitlines() for text in texts]
        sys.stdout.writelines(
            line + "\n" for line in difflib.unified_diff(*lines, f"before/{name}", f"after/{name}", lineterm="", n=2)
        )
    print(f"{len(names) - different} of {len(names)} roots are the same")
    return 1 if different or not names else 0


def main():
    """Parses the arguments and runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("record")
    verb.add_argument("out")
    verb.add_argument("--program", default=REPOSITORY / "target" / "release" / "annals")
    verb.add_argument("--only", default="*", help="a pattern of LAYOUT/NAME")
    verb.add_argument("--history", default="4M", help="the size of the generated history; 0 for none")
    verb.add_argument("--jobs", type=int, default=2)
    verb.set_defaults(work=record_all)
    verb = verbs.add_parser("compare")
    verb.add_argument("before")
    verb.add_argument("after")
    verb.set_defaults(work=compare)
    options = parser.parse_args()
    if getattr(options, "history", None) == "0":
        options.history = None
    return options.work(options)


if __name__ == "__main__":
    sys.exit(main())
