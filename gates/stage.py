"""A root in a directory of its own, the program run on it, and pictures of what lies there.

Time, zone, home and state are fixed, as in the tests of the program, so that what is written
depends on the root and on the command alone.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
PROGRAM = (REPOSITORY / TARGET / "debug" / "annals").resolve()
if "ANNALS_GATE_PROGRAM" in os.environ:
    PROGRAM = Path(os.environ["ANNALS_GATE_PROGRAM"]).resolve()

# Kills and simulated crashes ask nothing of a disk; memory is a hundred times faster.
FAST = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())

# When the files of a fixture were written, two weeks before the time of the stage: 2026-11-01.
FIXTURE_TIME = 1_793_491_200

# What a stage holds that counts.
TOPS = ("root", "state", "out")


def lasting(tree):
    """A tree without what may come and go."""

    def lasts(path):
        name = path.rsplit("/", 1)[-1]
        # A lock is a name to hold and has nothing in it: whoever wants it makes it anew.
        lock = (name == "keep.lock" or name.endswith(".jsonl.lock")) and not tree[path]
        return not (name.startswith("catalogue") or lock or TEMPORARY.match(name))

    return {path: content for path, content in tree.items() if lasts(path)}


TEMPORARY = re.compile(r"\.annals-[0-9a-f]+\.tmp$")


def has(needs):
    """Whether the program has a verb and a flag of it."""
    if not needs:
        return True
    verb, flag = needs
    told = subprocess.run([PROGRAM, verb, "--help"], capture_output=True, text=True, check=False)
    return told.returncode == 0 and flag in told.stdout


class Stage:
    """One copy of a fixture, with a state directory and a home beside it."""

    def __init__(self, layout, fixture, within=None):
        self.layout = layout
        self.base = Path(tempfile.mkdtemp(prefix="annals-gate-", dir=within or FAST))
        self.root = self.base / "root"
        for name in ("home", "work"):
            (self.base / name).mkdir()
        # What lay there before the operation, and by its inode where and how, once the stage is prepared.
        self.before, self.stats = {}, {}
        shutil.copytree(REPOSITORY / "fixtures" / layout / fixture, self.root)
        # The orchestrator's sessions are as old as their files.
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
            # One reader, so that calls come in one order.
            "RAYON_NUM_THREADS": "1",
        }

    def fill(self, arguments):
        """Puts the stage's own places into a command of the table."""
        places = {"{base}": str(self.base), "{root}": str(self.root)}
        filled = []
        for argument in arguments:
            for name, place in places.items():
                argument = argument.replace(name, place)
            filled.append(argument)
        return filled

    def command(self, arguments):
        """The program with these arguments; one that begins with a path is another program."""
        arguments = [word for word in self.fill(arguments) if not word.startswith("<")]
        if arguments[0].startswith("/"):
            return arguments
        return [str(PROGRAM), "--root", f"{self.layout}:{self.root}", *arguments]

    def run(self, arguments, around=()):
        """Runs a command, perhaps under another one; its working directory is none of ours."""
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
        """Every file with its bytes, by its path, without the catalogue, which is disposable, and
        without temporary files: those of a killed program stay until the next one takes their name.
        """
        return lasting(self.everything())

    def everything(self):
        """Every file with its bytes, by its path."""
        found = {}
        for path in self._paths():
            try:
                found[str(path.relative_to(self.base))] = path.read_bytes()
            except OSError:
                found[str(path.relative_to(self.base))] = b""
        return found

    def _paths(self):
        """The paths of all files."""
        for top in TOPS:
            for folder, _, names in os.walk(self.base / top):
                yield from (Path(folder) / name for name in names)

    def lay(self, files, directories):
        """Makes the tree this one. What lay there before stays the same file, with its mode and time,
        for a program may know it by those."""
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
            was, stat = old.get(path, ("", None))
            if stat and (aside / was).exists() and content.startswith(self.before[path]):
                (aside / was).rename(place)
            place.write_bytes(content)
            if stat and content == self.before[path]:
                place.chmod(stat.st_mode & 0o7777)
                os.utime(place, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
        shutil.rmtree(aside)
        for path in files:
            log = (self.base / path).with_suffix(".jsonl")
            if path.endswith(".annals") and log.exists():
                # A companion names its log by the inode, which a loss of power does not change.
                named = b'"inode":%d' % log.stat().st_ino
                companion = self.base / path
                companion.write_bytes(re.sub(rb'"inode":\d+', named, companion.read_bytes()))

    def note(self):
        """Notes what lies there before the operation."""
        self.before = self.tree()
        for path in self.before:
            stat = (self.base / path).stat()
            self.stats[str(stat.st_ino)] = (path, stat)

    def first_session(self):
        listed = self.run(["--json", "--no-index", "sessions"])
        return json.loads(listed.stdout)["sessions"][0]["id"]
