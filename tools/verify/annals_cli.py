"""Runs `annals` for the verification scripts: finds or builds it, and reads its JSON."""
import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
RELEASE = REPOSITORY / "target" / "release" / "annals"


class AnnalsError(Exception):
    """The program failed, or printed no JSON with --json."""


def find_annals(given=None):
    """Returns the command that starts annals: the given one, or the release build, built if
    missing."""
    if given is None:
        if not RELEASE.exists():
            print("building annals", file=sys.stderr)
            subprocess.run(["cargo", "build", "--release", "--locked", "-p", "annals-cli"], cwd=REPOSITORY, check=True)
        given = RELEASE
    given = Path(given).resolve()
    if not given.exists():
        raise AnnalsError("no program at %s" % given)
    return [sys.executable, "-B", str(given)] if given.suffix == ".py" else [str(given)]


class Annals:
    """The program on one root."""

    def __init__(self, command, root, layout="claude-code"):
        self.command = command
        self.root = Path(root)
        self.layout = layout

    def run(self, *arguments, stdin=None):
        """Runs one command and returns its standard output; a failure raises."""
        command = self.command + ["--root", "%s:%s" % (self.layout, self.root), *map(str, arguments)]
        done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, encoding="utf-8", check=False)
        # 1 means that nothing was found, which is a valid answer.
        if done.returncode not in (0, 1):
            raise AnnalsError("annals %s: exit code %d\n%s" % (
                " ".join(map(str, arguments)), done.returncode, (done.stderr + done.stdout).strip()[:2000]))
        return done.stdout

    def json(self, *arguments, stdin=None):
        """Runs one command with --json and returns the document."""
        output = self.run(*arguments, "--json", stdin=stdin)
        try:
            return json.loads(output)
        except ValueError as error:
            raise AnnalsError("annals %s: no JSON: %.200s" % (" ".join(map(str, arguments)), output)) from error

    def new(self, cwd, title=None):
        """Starts a session; returns its id and its file."""
        made = self.json("new", "--cwd", cwd, *(["--title", title] if title else []))
        return made["session"], Path(made["file"])

    def append(self, session, *drafts, at=None):
        """Appends drafts in one call; returns the ids of the entries written."""
        lines = "".join(json.dumps(draft, ensure_ascii=False) + "\n" for draft in drafts)
        made = self.json("append", session, *(["--at", at] if at else []), stdin=lines)
        return [entry["id"] for entry in made["entries"]]

    def fork(self, session, message=None, title=None):
        """Forks a session, at a message if one is given; returns the new id and file."""
        made = self.json("fork", "%s@%s" % (session, message) if message else session,
                         *(["--title", title] if title else []))
        return made["session"], Path(made["file"])

    def sessions(self):
        """Lists the sessions of the root."""
        return self.json("sessions")["sessions"]

    def show(self, session):
        """Returns a session's conversation."""
        return self.json("show", session)
