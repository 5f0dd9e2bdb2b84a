"""A root in its own directory, the program run on it, and snapshots of its files.

Time, zone, home and state are fixed, as in the tests of the program, so that the written files
depend only on the root and the command.
"""

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
PROGRAM = (REPOSITORY / TARGET / "debug" / "annals").resolve()
if "ANNALS_GATE_PROGRAM" in os.environ:
    PROGRAM = Path(os.environ["ANNALS_GATE_PROGRAM"]).resolve()

# Kills and simulated crashes need no disk; memory is a hundred times faster.
FAST = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())

# Modification time of fixture files: 2026-11-01, two weeks before the fixed time of the stage.
FIXTURE_TIME = 1_793_491_200

# The directories of a stage that are compared.
TOPS = ("root", "state", "out")


def lasting(tree):
    """Returns a tree without the index, empty lock files and temporary files."""

    def lasts(path):
        name = path.rsplit("/", 1)[-1]
        # An empty lock file may disappear: the next process that needs it creates it again.
        lock = (name == "keep.lock" or name.endswith(".jsonl.lock")) and not tree[path]
        # Of a database, the path has the name of a table too.
        index = any(part.startswith("index-") for part in path.split("/"))
        return not (index or lock or TEMPORARY.match(name))

    return {path: content for path, content in tree.items() if lasts(path)}


def with_rows(tree):
    """Returns a tree with the tables of each database in its place, because the bytes of a database have
    no fixed offset. A table has one line per row, in the order in which the rows were added."""
    found = dict(tree)
    for path in tree:
        if path.endswith(".db"):
            parts = {end: found.pop(path + end, None) for end in ("", "-wal", "-journal", "-shm")}
            found.update({f"{path}/{table}": rows for table, rows in tables(parts).items()})
    return found


def tables(parts):
    """Returns the rows of each table of a database as text, after a recovery from its journals. The
    shared memory beside it does not survive a crash."""
    with tempfile.TemporaryDirectory(dir=FAST) as aside:
        path = Path(aside, "copy.db")
        for end in ("", "-wal", "-journal"):
            if parts[end] is not None:
                Path(f"{path}{end}").write_bytes(parts[end])
        found = {}
        try:
            with contextlib.closing(sqlite3.connect(path)) as connection:
                (fault,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
                if fault != "ok":
                    return {"damage": fault.encode()}
                names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
                for (name,) in connection.execute(names).fetchall():
                    rows = connection.execute(f'SELECT * FROM "{name}" ORDER BY rowid')
                    found[name] = b"".join(repr(row).encode() + b"\n" for row in rows)
        except sqlite3.Error as error:
            return {"damage": str(error).encode()}
        return found


TEMPORARY = re.compile(r"\.annals-[0-9a-f]+\.tmp$")
# The name of a file that is being removed, which contains its former name.
REMOVED_NAME = re.compile(r"^\.annals-(.*)\.removed$")
# Names that a removal gives to a file: while it is removed, and if it cannot be renamed back.
REMOVED = re.compile(r"(^|/)\.annals-[^/]*\.removed$|[^/]\.annals-saved(-[0-9]+)?$")

# Runs a command as on a file system whose rename cannot refuse to replace a file: a seccomp filter
# lets renameat2 fail with EINVAL, also under strace, which cannot trace all paths for one call and one
# path for another.
_OLD_RENAME = """
import ctypes, os, platform, struct, sys
number = {"x86_64": 316, "aarch64": 276}[platform.machine()]
load, equal, answer = 0x20, 0x15, 0x06
code = ((load, 0, 0, 0), (equal, 0, 1, number), (answer, 0, 0, 0x50016), (answer, 0, 0, 0x7FFF0000))
filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filters", ctypes.c_void_p)]
program = Program(len(code), ctypes.addressof(filters))
libc = ctypes.CDLL(None, use_errno=True)
no_new_privileges, seccomp, as_filter = 38, 22, 2
if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(seccomp, as_filter, ctypes.byref(program), 0, 0):
    sys.exit(f"no seccomp filter: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
"""
OLD_RENAME = (sys.executable, "-I", "-S", "-c", _OLD_RENAME)


def can_be_old():
    """Returns whether this machine allows such a filter; otherwise reports it."""
    tried = subprocess.run([*OLD_RENAME, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        print(f"SKIPPED old rename: {tried.stderr.strip()[-200:]}")
    return tried.returncode == 0


def removed(tree):
    """Returns the files of a root that a removal left, which no reader shows."""
    return [path for path in tree if path.startswith("root/") and REMOVED.search(path)]


def has(needs):
    """Returns whether the program has this verb and this flag of it."""
    if not needs:
        return True
    verb, flag = needs
    told = subprocess.run([PROGRAM, verb, "--help"], capture_output=True, text=True, check=False)
    return told.returncode == 0 and flag in told.stdout


class Stage:
    """A copy of a fixture, with its own state directory and home."""

    def __init__(self, layout, fixture, within=None):
        self.layout = layout
        self.base = Path(tempfile.mkdtemp(prefix="annals-gate-", dir=within or FAST))
        self.root = self.base / "root"
        for name in ("home", "work"):
            (self.base / name).mkdir()
        # Files before the operation, with the tables of databases and as they are, and their path and stat
        # by inode, after the stage is prepared.
        self.before, self.files_before, self.stats = {}, {}, {}
        shutil.copytree(REPOSITORY / "fixtures" / layout / fixture, self.root)
        # The age of an orchestrator session is that of its file.
        for path in self._paths():
            os.utime(path, (FIXTURE_TIME, FIXTURE_TIME))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.base, ignore_errors=True)

    def environment(self):
        return {
            "ANNALS_NOW": "2026-11-15T12:00:00Z",
            "ANNALS_STATE_DIR": str(self.base / "state"),
            "HOME": str(self.base / "home"),
            "TMPDIR": str(self.base / "work"),
            "PATH": os.environ["PATH"],
            "TZ": "UTC",
            "USER": "mira",
            # One thread, so that calls come in the same order every time.
            "RAYON_NUM_THREADS": "1",
        }

    def fill(self, arguments):
        """Replaces `{base}` and `{root}` in a command by the paths of the stage, and `{layout}`."""
        places = {"{base}": str(self.base), "{root}": str(self.root), "{layout}": self.layout}
        filled = []
        for argument in arguments:
            for name, place in places.items():
                argument = argument.replace(name, place)
            filled.append(argument)
        return filled

    def command(self, arguments):
        """Returns the command line; one that starts with a path runs another program."""
        arguments = [word for word in self.fill(arguments) if not word.startswith("<")]
        if arguments[0].startswith("/"):
            return arguments
        return [str(PROGRAM), "--root", f"{self.layout}:{self.root}", *arguments]

    def run(self, arguments, around=()):
        """Runs a command in `/`, optionally under another one such as strace."""
        said = [word[1:].encode() for word in self.fill(arguments) if word.startswith("<")]
        return subprocess.run(
            [*around, *self.command(arguments)],
            input=b"".join(said),
            capture_output=True,
            cwd="/",
            env=self.environment(),
            timeout=120,
            check=False,
        )

    def tree(self):
        """Returns every file with its bytes by path, without the index, which is disposable, and
        without temporary files, which stay after a kill until another process uses their name."""
        return lasting(self.everything())

    def everything(self):
        """Returns every file with its bytes, by path, and the tables of databases."""
        return with_rows(self.files())

    def files(self):
        """Returns every file with its bytes, by path."""
        found = {}
        for path in self._paths():
            try:
                found[str(path.relative_to(self.base))] = path.read_bytes()
            except OSError:
                found[str(path.relative_to(self.base))] = b""
        return found

    def _paths(self):
        """Yields the paths of all files."""
        for top in TOPS:
            for folder, _, names in os.walk(self.base / top):
                yield from (Path(folder) / name for name in names)

    def lay(self, files, directories):
        """Replaces the tree by this one. Files that existed before the operation keep their inode,
        mode and time, because the program may identify them by those."""
        aside = self.base / "aside"
        aside.mkdir()
        for path in self._paths():
            was = str(path.lstat().st_ino)
            if was in self.stats:
                path.rename(aside / was)
        for top in TOPS:
            shutil.rmtree(self.base / top, ignore_errors=True)
        for path in directories:
            (self.base / path).mkdir(parents=True, exist_ok=True)
        old = {path: (was, stat) for was, (path, stat) in self.stats.items()}
        for path, content in files.items():
            place = self.base / path
            place.parent.mkdir(parents=True, exist_ok=True)
            # A removal renames a file, which keeps its inode and time.
            former = path if path in old else str(Path(path).with_name(REMOVED_NAME.sub(r"\1", Path(path).name)))
            was, stat = old.get(former, ("", None))
            if stat and (aside / was).exists() and content.startswith(self.files_before[former]):
                (aside / was).rename(place)
            place.write_bytes(content)
            if stat and content == self.files_before[former]:
                place.chmod(stat.st_mode & 0o7777)
                os.utime(place, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
        shutil.rmtree(aside)
        for path in files:
            log = (self.base / path).with_suffix(".jsonl")
            if path.endswith(".annals") and log.exists():
                # A companion file names its log's inode, which a power loss does not change.
                named = b'"inode":%d' % log.stat().st_ino
                companion = self.base / path
                companion.write_bytes(re.sub(rb'"inode":\d+', named, companion.read_bytes()))

    def note(self):
        """Records the files before the operation."""
        self.before, self.files_before = self.tree(), lasting(self.files())
        for path in self.files_before:
            stat = (self.base / path).stat()
            self.stats[str(stat.st_ino)] = (path, stat)

    def first_session(self):
        listed = self.run(["--json", "--no-index", "sessions"])
        return json.loads(listed.stdout)["sessions"][0]["id"]
