"""The operations that gates interrupt, one row each. A new verb of the program is a new row.

`{id}` is the first session of the fixture, `{token}` a new word in every run, `{base}` and `{root}`
are paths of the stage, `{layout}` is its layout. A last word that starts with `<` is the standard input of the command. A
command that starts with a path runs another program.
"""

import shutil
from dataclasses import dataclass

# Lists derived from logs: any process that finds one stale may replace it as a whole.
SESSION_LISTS = (
    "*/conversations.json",
    "*/sessions-index.json",
    "*/index.json",
    "*/session_index.jsonl",
    "*/workspace.yaml",
)

PLAIN = {
    "claude-code": "2.1.325-s03-todos",
    "chorus": "chorus-plain",
    "clog": "agents-todos-origin",
    "orchestrator": "notes-and-todos",
    "codex": "0.80-s01-qa",
    "gemini": "patches-tools",
    "pi": "0.73-s01-qa",
    "qwen": "0.24-s01-qa",
    "copilot": "1.0-s01-qa",
}
FAMILY = {
    "claude-code": "subagents-every-placement",
    "chorus": "chorus-plain",
    "clog": "agents-todos-origin",
    "orchestrator": "sub-agent",
    "codex": "made-sub-agent",
    "gemini": "made-sub-agent",
    "pi": "0.87-s03-tree",
    "qwen": "made-sub-agent",
    "copilot": "1.0-s04-subagent",
}
TORN = {
    "claude-code": "torn-tail",
    "chorus": "chorus-damage",
    "clog": "torn-last-message",
    "orchestrator": "torn-tail",
    "codex": "made-odd",
    "gemini": "made-damage",
    "pi": "made-odd",
    "qwen": "made-odd",
    "copilot": "made-odd",
}


# Databases, which are neither archived nor removed.
ROWS = {"opencode": "1.18-s02-tools"}


@dataclass(frozen=True)
class Script:
    """One operation, how its tree is prepared, and what must hold after it has run to its end."""

    name: str
    # The fixture for each layout on which it is run.
    on: dict
    # The command that is interrupted, and later run again.
    command: tuple
    # Commands that are run before, undisturbed.
    prepare: tuple = ()
    # Documents that the operation replaces; each is complete at any time.
    changes: tuple = ()
    # Exit codes of an undisturbed run: 0, or also 1 if it reports damage.
    ends: tuple = (0,)
    # Exit codes of a second run: 0, and others if the first may have done everything.
    again: tuple = (0,)
    # Commands that are run after the second run.
    finish: tuple = ()
    # What holds in the end: "token" (it is where an undisturbed run puts it), "latest" (the same
    # for the last acknowledged token, or a later one in its place), "undone" (the root is as it was
    # at first), "same" (the result is that of an undisturbed run).
    goal: str = "token"
    # Files that the operation is meant to remove permanently.
    removes: tuple = ()
    # A command that unpacks data stored in another form to `{base}/out`.
    unpack: tuple = ()
    # A verb and a flag that the program must have; otherwise the script is reported as skipped.
    needs: tuple = ()
    # Whether it runs as on a file system whose rename cannot refuse to replace a file.
    old_rename: bool = False


DAMAGED = {
    "claude-code": "glued-records",
    "chorus": "chorus-damage",
    "clog": "glued-messages",
    "orchestrator": "glued-records",
    "codex": "made-odd",
    "gemini": "made-damage",
    "pi": "made-odd",
    "qwen": "made-odd",
    "copilot": "made-odd",
}
# Fixtures with one session, so that the undo of its removal restores the whole root.
ALONE = {name: FAMILY[name] for name in ("claude-code", "clog", "orchestrator")}
CHORUS = {"chorus": PLAIN["chorus"]}

PYTHON = shutil.which("python3")
# Another program truncates every log, so that the archived content becomes an earlier version.
SHORTEN = """
import pathlib, sys
for log in pathlib.Path(sys.argv[1]).rglob("*.jsonl"):
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
"""
# Another program appends the same lines to every log.
LENGTHEN = """
import pathlib, sys
for log in pathlib.Path(sys.argv[1]).rglob("*.jsonl"):
    log.write_bytes(log.read_bytes() + b'{"type":"gate"}\\n')
"""
# Another program renames the folder of a project and removes some of its sub-agents.
MOVE = """
import pathlib, shutil, sys
for project in pathlib.Path(sys.argv[1], "projects").iterdir():
    moved = project.rename(project.with_name("-w-moved"))
    for lost in moved.rglob("workflows"):
        shutil.rmtree(lost)
"""
# Another program removes all sub-agents in folders of their session.
LOSE = """
import pathlib, shutil, sys
for lost in pathlib.Path(sys.argv[1], "projects").rglob("subagents"):
    shutil.rmtree(lost)
"""
# Corrupts a byte of every archived file, after the first archived data.
SPOIL = """
import pathlib, sys
for stored in pathlib.Path(sys.argv[1]).rglob("*.zst"):
    bytes = bytearray(stored.read_bytes())
    bytes[len(bytes) * 3 // 5] ^= 255
    stored.write_bytes(bytes)
"""

SCRIPTS = (
    Script(
        "begin",
        PLAIN,
        ("new", "--cwd", "/w/gate", "-m", "{token}"),
        changes=("root/config.json",),
    ),
    Script("append", PLAIN, ("append", "{id}", "-m", "{token}")),
    Script("append to a torn log", TORN, ("append", "{id}", "-m", "{token}")),
    Script("title", PLAIN, ("title", "{id}", "{token}")),
    Script("note", PLAIN, ("notes", "add", "{id}", "{token}")),
    Script(
        "todo",
        {**PLAIN, "orchestrator": "one-day"},
        ("todos", "add", "{id}", "{token}"),
        changes=("root/todos/*.json", "*todos*"),
    ),
    Script(
        "todo, the list replaced",
        PLAIN,
        ("todos", "set", "{id}", "-", '<[{"content": "{token}", "status": "pending"}]'),
        changes=("root/todos/*.json", "*todos*"),
        goal="latest",
    ),
    Script("tag", PLAIN, ("tag", "{id}", "{token}")),
    Script("compact", PLAIN, ("compact", "{id}", "--summary", "{token}")),
    Script(
        "append three at once",
        PLAIN,
        ("append", "{id}", "<" + '{"role": "user", "content": "{token}"}\n' * 3),
    ),
    Script(
        "begin in a database",
        ROWS,
        ("new", "--cwd", "/home/dev/work", "-m", "{token}"),
    ),
    Script("append to a database", ROWS, ("append", "{id}", "-m", "{token}")),
    Script(
        "append three at once to a database",
        ROWS,
        ("append", "{id}", "<" + '{"role": "user", "content": "{token}"}\n' * 3),
    ),
    Script(
        "title in a database",
        ROWS,
        ("title", "{id}", "{token}"),
        changes=("root/opencode.db/session",),
        goal="latest",
    ),
    Script("compact in a database", ROWS, ("compact", "{id}", "--summary", "{token}")),
    Script("note in a database", ROWS, ("notes", "add", "{id}", "{token}")),
    Script("tag in a database", ROWS, ("tag", "{id}", "{token}")),
    Script("fork in a database", ROWS, ("fork", "{id}", "--title", "{token}")),
    Script(
        "sub-agent in a database",
        ROWS,
        ("append", "{id}", "--agent", "ses_gate0000000001", "-m", "{token}"),
    ),
    Script(
        "append to a sub-agent",
        {name: PLAIN[name] for name in ("claude-code", "codex", "gemini", "pi", "qwen", "copilot")},
        ("append", "{id}", "--agent", "0199d6a0-0000-7000-8000-0000000000aa", "-m", "{token}"),
    ),
    Script(
        "set a state document",
        {"clog": "every-role-and-channel"},
        ("documents", "set", "operator", '{"gate": "{token}"}'),
        changes=("root/state/*.json",),
        goal="latest",
    ),
    Script(
        "log of a run",
        {"clog": "every-role-and-channel"},
        ("documents", "log", "--run", "2026-03-26T01:32:19Z", "-m", "{token}"),
    ),
    Script("fork", PLAIN, ("fork", "{id}", "--title", "{token}")),
    Script(
        "delete",
        FAMILY,
        ("delete", "{id}", "--apply"),
        again=(0, 1, 2),
        finish=(("delete", "--undo", "{id}"),),
        goal="undone",
    ),
    Script(
        "undelete",
        FAMILY,
        ("delete", "--undo", "{id}"),
        prepare=(("delete", "{id}", "--apply"),),
        again=(0, 1, 2),
        goal="undone",
        removes=("state/undo/*/manifest.json",),
    ),
    Script(
        "convert to chorus",
        {name: PLAIN[name] for name in ("claude-code", "clog", "orchestrator")},
        ("convert", "{layout}:{root}", "--to", "chorus", "--into", "{base}/out"),
        goal="same",
    ),
    Script(
        "convert to claude-code",
        {**{name: PLAIN[name] for name in PLAIN if name != "claude-code"}, **ROWS},
        ("convert", "{layout}:{root}", "--to", "claude-code", "--into", "{base}/out"),
        goal="same",
    ),
    Script(
        "convert to clog",
        {"claude-code": FAMILY["claude-code"]},
        ("convert", "{layout}:{root}", "--to", "clog", "--into", "{base}/out"),
        goal="same",
    ),
    Script(
        "convert to orchestrator",
        {"claude-code": FAMILY["claude-code"], "chorus": PLAIN["chorus"]},
        ("convert", "{layout}:{root}", "--to", "orchestrator", "--into", "{base}/out"),
        goal="same",
    ),
    *(
        Script(
            f"convert to {layout}",
            {"claude-code": FAMILY["claude-code"], "chorus": PLAIN["chorus"]},
            ("convert", "{layout}:{root}", "--to", layout, "--into", "{base}/out"),
            goal="same",
        )
        for layout in ("codex", "gemini", "pi", "qwen", "copilot")
    ),
    Script(
        "convert without what is archived",
        {"claude-code": FAMILY["claude-code"]},
        ("convert", "{layout}:{root}", "--to", "chorus", "--into", "{base}/out", "--without-archived"),
        prepare=(
            ("archive", "{id}", "--keep-source", "--apply"),
            (PYTHON, "-I", "-S", "-c", LOSE, "{root}"),
        ),
        goal="same",
        needs=("convert", "--without-archived"),
    ),
    Script(
        "session list: repair",
        {"chorus": "chorus-index-behind"},
        ("repair", "--apply"),
        goal="same",
    ),
    Script(
        "session list: repair a torn one",
        {"chorus": "chorus-index-torn"},
        ("repair", "--apply"),
        goal="readable",
    ),
    Script(
        "chorus: add a workspace",
        {"chorus": "chorus-plain"},
        ("chorus", "workspaces", "add", "/w/{token}"),
        changes=("root/config.json",),
        again=(0, 2),
        goal="token",
    ),
    Script(
        "chorus: rename a workspace",
        CHORUS,
        ("chorus", "workspaces", "rename", "w-app", "{token}"),
        changes=("root/config.json",),
        goal="latest",
    ),
    Script(
        "chorus: add an agent",
        CHORUS,
        ("chorus", "agents", "add", "w-app", "{token}"),
        changes=("root/config.json",),
    ),
    Script(
        "chorus: rename an agent",
        CHORUS,
        ("chorus", "agents", "rename", "w-app", "a-review", "{token}"),
        changes=("root/config.json",),
        goal="latest",
    ),
    Script(
        "chorus: a setting",
        CHORUS,
        ("chorus", "settings", "rootWorkspaceDir", "/w/{token}"),
        changes=("root/config.json",),
        goal="latest",
    ),
    Script(
        "chorus: remove an agent",
        CHORUS,
        ("chorus", "agents", "remove", "w-app", "a-review", "--apply"),
        changes=("root/config.json",),
        again=(0, 2),
        finish=(("delete", "--undo", "794a5c36-a509-403f-8716-74e697f62c1b"),),
        goal="readable",
        removes=("*/conversations.json",),
    ),
    Script(
        "chorus: remove a workspace",
        CHORUS,
        ("chorus", "workspaces", "remove", "w-app", "--apply"),
        changes=("root/config.json",),
        again=(0, 2),
        finish=(
            ("delete", "--undo", "794a5c36-a509-403f-8716-74e697f62c1b"),
            ("delete", "--undo", "{id}"),
        ),
        goal="readable",
        removes=("*/conversations.json",),
    ),
    Script(
        "archive",
        FAMILY,
        ("archive", "{id}", "--apply"),
        again=(0, 1, 2),
        finish=(("restore", "{id}", "--apply"),),
        goal="undone",
        unpack=("restore", "{id}", "--to", "{base}/out", "--apply"),
        needs=("archive", "--keep-source"),
    ),
    Script(
        "mirror",
        FAMILY,
        ("archive", "{id}", "--keep-source", "--apply"),
        finish=(("archive", "--verify"),),
        goal="undone",
        needs=("archive", "--keep-source"),
    ),
    Script(
        "mirror what was added",
        PLAIN,
        ("archive", "{id}", "--keep-source", "--apply"),
        prepare=(
            ("archive", "{id}", "--keep-source", "--apply"),
            ("append", "{id}", "-m", "{token}"),
        ),
        changes=("state/archive/*",),
        finish=(("archive", "--verify"),),
        goal="readable",
        needs=("archive", "--keep-source"),
    ),
    Script(
        "keep",
        FAMILY,
        ("keep",),
        finish=(("archive", "--verify"),),
        goal="undone",
        changes=("state/archive/keep.json",),
        needs=("keep", "--verify-all"),
    ),
    Script(
        "keep what was added",
        PLAIN,
        ("keep",),
        prepare=(("keep",), ("append", "{id}", "-m", "{token}")),
        changes=("state/archive/*",),
        finish=(("archive", "--verify"),),
        goal="readable",
        needs=("keep", "--verify-all"),
    ),
    Script(
        "forget what is archived",
        FAMILY,
        ("archive", "--forget", "{id}", "--apply"),
        prepare=(("archive", "{id}", "--keep-source", "--apply"),),
        again=(0, 1, 2),
        goal="undone",
        removes=("state/archive/*",),
        needs=("archive", "--forget"),
    ),
    Script(
        "restore",
        FAMILY,
        ("restore", "{id}", "--apply"),
        prepare=(("archive", "{id}", "--apply"),),
        again=(0, 1, 2),
        goal="undone",
        needs=("restore", "--to"),
    ),
    Script(
        "restore an earlier version",
        FAMILY,
        ("restore", "{id}", "--earlier", "--to", "{base}/out", "--apply"),
        prepare=(
            ("archive", "{id}", "--keep-source", "--apply"),
            (PYTHON, "-I", "-S", "-c", SHORTEN, "{root}"),
            ("archive", "{id}", "--keep-source", "--apply"),
        ),
        again=(0, 1, 2),
        goal="same",
        needs=("restore", "--earlier"),
    ),
    Script(
        "restore to a renamed folder",
        # Restores what was archived from the folder before its rename.
        {"claude-code": FAMILY["claude-code"]},
        ("restore", "{id}", "--apply"),
        prepare=(
            ("archive", "{id}", "--keep-source", "--apply"),
            (PYTHON, "-I", "-S", "-c", MOVE, "{root}"),
            ("archive", "{id}", "--keep-source", "--apply"),
            (PYTHON, "-I", "-S", "-c", LOSE, "{root}"),
        ),
        again=(0, 1, 2),
        goal="same",
        needs=("restore", "--to"),
    ),
    Script(
        "restore what can be read",
        # Sessions of several files: with one file nothing would be left.
        {name: FAMILY[name] for name in ("claude-code", "clog")},
        ("restore", "{id}", "--salvage", "--apply"),
        prepare=(
            ("archive", "{id}", "--keep-source", "--apply"),
            (PYTHON, "-I", "-S", "-c", LENGTHEN, "{root}"),
            ("archive", "{id}", "--live", "--apply"),
            (PYTHON, "-I", "-S", "-c", SPOIL, "{base}/state"),
        ),
        ends=(0, 1),
        again=(0, 1, 2),
        goal="same",
        needs=("restore", "--salvage"),
    ),
    Script(
        "repair",
        DAMAGED,
        ("repair", "--apply"),
        goal="readable",
        again=(0, 1),
        needs=("repair", "--undo"),
    ),
    Script(
        "repair, undone",
        # Fixtures with one damaged log.
        {
            "claude-code": DAMAGED["claude-code"],
            "clog": DAMAGED["clog"],
            "orchestrator": "corrupt-middle",
        },
        ("repair", "--undo", "{id}"),
        prepare=(("repair", "--apply"),),
        again=(0, 1, 2),
        goal="undone",
        # The repaired file is removed, and the original is restored from the vault.
        removes=("root/*", "state/undo/*"),
        needs=("repair", "--undo"),
    ),
    Script(
        "repair, forgotten",
        DAMAGED,
        ("repair", "--forget", "--all", "--apply"),
        prepare=(("repair", "--apply"),),
        again=(0, 1, 2),
        goal="same",
        removes=("state/undo/*",),
        needs=("repair", "--forget"),
    ),
    Script(
        "clean",
        FAMILY,
        ("clean", "--older-than", "1d", "--apply"),
        again=(0, 1),
        goal="readable",
        # A session list is removed with the last log that it listed; the trash keeps its rows.
        removes=("*/conversations.json",),
        needs=("clean", "--purge"),
    ),
    Script(
        "clean, undone",
        ALONE,
        ("clean", "--older-than", "1d", "--apply"),
        again=(0, 1),
        finish=(("delete", "--undo", "{id}"),),
        goal="undone",
        needs=("clean", "--purge"),
    ),
    Script(
        "purge",
        FAMILY,
        ("clean", "--purge", "--apply"),
        prepare=(("delete", "{id}", "--apply"),),
        again=(0, 1),
        goal="readable",
        removes=("state/undo/*",),
        needs=("clean", "--purge"),
    ),
    Script(
        "pin",
        PLAIN,
        ("pin", "{id}"),
        changes=("state/pins.json",),
        goal="readable",
        needs=("pin", "--help"),
    ),
    Script(
        "unpin",
        PLAIN,
        ("pin", "--remove", "{id}"),
        prepare=(("pin", "{id}"),),
        changes=("state/pins.json",),
        again=(0, 1, 2),
        goal="readable",
        needs=("pin", "--remove"),
    ),
    Script(
        "import",
        FAMILY,
        ("import", "{base}/work/exported.jsonl"),
        prepare=(
            ("export", "{id}", "--format", "jsonl", "-o", "{base}/work/exported.jsonl"),
            ("delete", "{id}", "--apply"),
        ),
        goal="same",
        needs=("import", "--fresh-ids"),
    ),
)
