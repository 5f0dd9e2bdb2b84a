"""Gate 1: every operation is killed at every system call, and killed again while it is repeated.

Only calls that touch the tree or write an answer count; process startup makes others. `strace`
counts calls by name, so a point is a name and a number. Operations that move files are also run as
on a file system whose rename cannot refuse to replace a file. If a kill leaves a file of the root
under the name that a removal gives it, a reader must report it.
"""

import json
import random
import re
import shutil
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fnmatch import fnmatch

import oracle
from scripts import PLAIN, SCRIPTS, Script
from stage import FAST, OLD_RENAME, Stage, can_be_old, has, removed
from table import Row

KILLED = (-9, 137)
CALL = re.compile(r"^(\d+)\s+(\w+)\((.*)$")

# Operations that are also run with an old rename.
MOVES = ("delete", "undelete", "archive", "restore", "clean", "clean, undone")
# Commands that must report what a killed removal left, and their exit codes.
READERS = (
    ((), 2),
    (("projects",), 2),
    (("sessions",), 2),
    (("conversations",), 2),
    (("search", "the"), 2),
    (("cost",), 2),
    (("show", "{id}"), 2),
    (("tree", "{id}"), 2),
    (("export", "{id}", "--format", "json", "-o", "-"), 2),
    (("export", "{id}", "--format", "jsonl", "-o", "-"), 2),
    (("repair",), 2),
    # Without `--details`, many findings are only counted.
    (("check", "--details"), 1),
)


class Plan:
    """One script on one layout: its points, and the result of an undisturbed run."""

    def __init__(self, script, layout):
        self.script, self.layout = script, layout
        self.around = OLD_RENAME if script.old_rename else ()
        fixture = script.on[layout]
        with Stage(layout, fixture) as first:
            self.first_root = _part(first.tree(), "root/")
            self.id = first.first_session()
        self._trace()

    def stage(self):
        """Returns a new prepared stage. Each one is prepared separately, because state may contain
        its path."""
        stage = Stage(self.layout, self.script.on[self.layout])
        for command in self.script.prepare:
            done = stage.run(self.spell(command, "prepared"))
            if done.returncode != 0:
                where = f"{self.script.name}, {self.layout}"
                raise RuntimeError(f"{where}: {command}: {done.stderr.decode()}")
        stage.note()
        return stage

    def spell(self, command, token):
        return [word.replace("{id}", self.id).replace("{token}", token) for word in command]

    def _trace(self):
        with self.stage() as stage:
            trace = stage.base / "trace"
            run = stage.run(
                self.spell(self.script.command, "undisturbed"),
                around=(*self.around, "strace", "-f", "-y", "-qq", "-o", str(trace)),
            )
            if run.returncode not in self.script.ends:
                raise RuntimeError(
                    f"{self.script.name}, {self.layout}: the undisturbed run fails:"
                    f" {run.stderr.decode()}"
                )
            self.answers = bool(run.stdout)
            self.made = stage.tree()
            self.copies = oracle.count(self.made, "undisturbed")
            self.points = points(trace.read_text(errors="replace"), str(stage.base))


def points(trace, base):
    """Returns each call that touches the tree or answers: its name and its number among those
    calls."""
    seen, found = Counter(), set()
    for line in trace.splitlines():
        call = CALL.match(line)
        if not call:
            continue
        thread, name, rest = call.groups()
        seen[thread, name] += 1
        answers = name == "write" and rest.startswith(("1<", "2<"))
        if (base in rest or answers) and name not in ("execve", "exit_group"):
            found.add((name, seen[thread, name]))
    return sorted(found)


def strike(stage, arguments, point, around=()):
    """Runs a command and kills it at a point."""
    name, number = point
    inject = f"inject={name}:signal=KILL:when={number}"
    strace = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={name}", "-e", inject)
    return stage.run(arguments, around=(*around, *strace))


def unreported(plan, stage, reader):
    """Yields what is wrong with a reader after a kill that left files a removal had renamed."""
    left = removed(stage.everything())
    words, code = reader
    if words == ("cost",):
        # Only logs have costs: not the notes and the origin beside one.
        beside = ("notes.jsonl", "annals-origin.jsonl")
        logs = [path for path in left if ".jsonl" in path]
        left = [path for path in logs if not any(name in path for name in beside)]
    if not left:
        return
    for head in ("--color=never", "--json"):
        run = stage.run([head, "--no-index", *plan.spell(words, "")])
        said = (run.stdout + run.stderr).decode(errors="replace")
        what = " ".join((head, *words))
        # An error before any other output is the whole document.
        listed = head != "--json" or code == 1 or in_json(run.stdout)
        if run.returncode != code:
            yield f"{what} exits with {run.returncode} beside {left[0]}"
        elif not any(path.rsplit("/", 1)[-1] in said for path in left):
            yield f"{what} does not name {left[0]}"
        elif not listed:
            yield f"{what} does not list {left[0]} as a problem"


def in_json(out):
    """Returns whether a document or one of several lines reports a problem or an error."""
    try:
        documents = [json.loads(out)]
    except ValueError:
        documents = [json.loads(line) for line in out.splitlines()]
    return any(it.get("problems") or it.get("error") or it.get("type") == "problem" for it in documents)


class Tally:
    """Counts and failures at some points."""

    def __init__(self):
        self.points = self.kills = self.acks = 0
        self.failures = []


def interrupt(plan, point, second, reader=None):
    """Kills the operation at one point, optionally again at `second`, then runs it to its end. A reader
    runs after the first kill."""
    tally, script = Tally(), plan.script
    where = f"{script.name}, {plan.layout}, {point[0]} {point[1]}"
    with plan.stage() as stage:
        acknowledged = []

        def look(moment):
            tree = stage.tree()
            for what in (*lost(plan, stage, tree), *unsaid(plan, tree, acknowledged)):
                tally.failures.append(f"{where}, {moment}: {what}")
            return tree

        for turn, at in enumerate((point, second)):
            if at is None:
                continue
            token = f"token-{turn}"
            run = strike(stage, plan.spell(script.command, token), at, plan.around)
            killed = run.returncode in KILLED
            tally.points += 1
            tally.kills += killed
            acked = bool(run.stdout) or run.returncode == 0
            tally.acks += acked
            acknowledged.append((token, acked))
            look("killed" if turn == 0 else f"killed again at {second[0]} {second[1]}")
            if turn == 0 and reader:
                tally.failures.extend(f"{where}, killed: {what}" for what in unreported(plan, stage, reader))
        run = stage.run(plan.spell(script.command, "token-last"), around=plan.around)
        if run.returncode not in script.again or b"panicked" in run.stderr:
            tally.failures.append(f"{where}: a second run fails: {run.stderr.decode()[:300]}")
        acknowledged.append(("token-last", run.returncode == 0))
        tally.acks += run.returncode == 0
        tree = look("run again")
        for command in script.finish:
            run = stage.run(plan.spell(command, "finish"), around=plan.around)
            if run.returncode != 0:
                tally.failures.append(f"{where}: {command[0]} fails: {run.stderr.decode()[:300]}")
            tree = stage.tree()
        tally.failures.extend(f"{where}: {what}" for what in unreached(plan, tree))
    return tally


def unsaid(plan, tree, acknowledged):
    """Yields acknowledged tokens that are missing, and tokens that occur too often."""
    counted = [(token, acked, oracle.count(tree, token)) for token, acked in acknowledged]
    if plan.script.goal == "token":
        for token, acked, copies in counted:
            if acked and copies != plan.copies or copies > plan.copies:
                told = "an acknowledged" if acked else "a"
                yield f"{copies} of {plan.copies} of {told} {token}"
    elif plan.script.goal == "latest":
        # Either the last acknowledged token is present, or a later one.
        last = max((at for at, (_, acked, _) in enumerate(counted) if acked), default=None)
        if last is not None and all(copies != plan.copies for *_, copies in counted[last:]):
            yield f"{counted[last][0]} was acknowledged, and neither it nor a later one stands there"
        for token, _, copies in counted:
            if copies > plan.copies:
                yield f"{copies} of {plan.copies} of a {token}"


def lost(plan, stage, tree):
    """Returns lost files, after also unpacking those that are stored in another form."""
    missing = oracle.lost(stage.before, tree, plan.script)
    if missing and plan.script.unpack:
        stage.run(plan.spell(plan.script.unpack, ""))
        given = _part(stage.tree(), "out/")
        shutil.rmtree(stage.base / "out", ignore_errors=True)
        missing = oracle.lost(stage.before, {**tree, **given}, plan.script)
    return missing


def _without_inodes(tree):
    """Returns a tree without the log inodes in companion files, which are new in every run."""
    companion = {path: data for path, data in tree.items() if str(path).endswith(".annals") and isinstance(data, bytes)}
    return {**tree, **{path: re.sub(rb',"inode":\d+', b"", data) for path, data in companion.items()}}


def unreached(plan, tree):
    """Yields differences from the operation's goal. Torn lines of logs that are only appended to
    may stay."""
    if plan.script.goal == "undone":
        root = underived(_part(tree, "root/"))
        was = underived(plan.first_root)
        for path in sorted(root.keys() | was.keys()):
            if root.get(path) != was.get(path):
                yield f"{path} did not come back as it was"
    elif plan.script.goal == "same":
        for top in ("root/", "out/"):
            made, wanted = _without_inodes(_part(tree, top)), _without_inodes(_part(plan.made, top))
            for path in sorted(made.keys() | wanted.keys()):
                if made.get(path) != wanted.get(path) and not _mended(made.get(path), wanted.get(path)):
                    yield f"{path} is not what an undisturbed run makes"
    elif plan.script.goal == "back":
        yield from not_back(tree, _part(plan.first_root, "root/"))


def not_back(tree, root):
    """Yields logs of a root that were converted to another layout and did not come back."""
    for path, content in root.items():
        if path.endswith(".jsonl") and tree.get(path.replace("root/", "out/back/", 1)) != content:
            yield f"{path} did not come back as it was"


PLACE = re.compile(rb'^\{"offset":\d+,', re.MULTILINE)


def _mended(made, wanted):
    """Returns whether all extra lines of a log are torn prefixes of its other lines."""
    if not made or not wanted:
        return False
    # After a torn line, the offsets in the companion file differ.
    made, wanted = (PLACE.sub(b"", content) for content in (made, wanted))
    lines, whole = made.split(b"\n"), wanted.split(b"\n")
    torn = [line for line in lines if line not in whole]
    rest = [line for line in lines if line in whole]
    return rest == whole and all(any(line.startswith(part) for line in whole) for part in torn)


def _part(tree, top):
    return {path: content for path, content in tree.items() if path.startswith(top)}


def underived(tree):
    return {
        path: content
        for path, content in tree.items()
        if not any(fnmatch(path, pattern) for pattern in oracle.SESSION_LISTS)
    }


# Wrong programs: each does what the program does, in a wrong order.
EARLY = """
import os, sys
os.write(1, b"added\\n")
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
os.write(log, sys.argv[2].encode() + b"\\n")
"""
REWRITE = """
import os, sys
was = open(sys.argv[1], "rb").read()
log = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
os.write(log, was + sys.argv[2].encode() + b"\\n")
os.write(1, b"added\\n")
"""
EARLY_REPLACE = """
import os, sys
os.write(1, b"replaced\\n")
new = os.open(sys.argv[1] + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
os.write(new, sys.argv[2].encode() + b"\\n")
os.rename(sys.argv[1] + ".new", sys.argv[1] + ".document")
"""
REMOVE_FIRST = """
import os, sys
if os.path.exists(sys.argv[1]):
    was = open(sys.argv[1], "rb").read()
    os.unlink(sys.argv[1])
    os.makedirs(sys.argv[2], exist_ok=True)
    os.write(os.open(sys.argv[2] + "/kept", os.O_WRONLY | os.O_CREAT), was)
os.write(1, b"moved\\n")
"""


# Removes in two steps, and leaves the log in between; a second run finishes that.
HALF = """
import os, sys
folder, name = os.path.split(sys.argv[1])
removed = f"{folder}/.annals-{name}.removed"
os.rename(sys.argv[1], removed)
os.rename(removed, sys.argv[1])
os.write(1, b"moved\\n")
"""


def silent_reader():
    """Returns whether a reader is caught that does not report what a killed removal left."""
    python = shutil.which("python3")
    log = "{base}/root/sessions/w-app/a-main/fd7a4cec-cb2e-4533-8dd8-0e229ed8360b-messages.jsonl"
    half = Script("control: half a removal", {"chorus": PLAIN["chorus"]}, (python, "-I", "-S", "-c", HALF, log))
    plan, silent = Plan(half, "chorus"), (("--version",), 2)
    with plan.stage() as stage:
        point = next(point for point in plan.points if point[0].startswith("rename"))
        # The call itself is done before the kill, or not at all.
        for number in (point[1], point[1] + 1):
            strike(stage, plan.spell(half.command, ""), (point[0], number))
            if removed(stage.everything()):
                return any(unreported(plan, stage, silent))
    return False


def controls():
    """Returns the wrong programs as scripts; each must be caught."""
    python = shutil.which("python3")
    logs = {"chorus": "root/sessions/w-app/a-main/fd7a4cec-cb2e-4533-8dd8-0e229ed8360b-messages.jsonl"}
    log = "{base}/" + logs["chorus"]
    on = {"chorus": PLAIN["chorus"]}

    def wrong(name, text, *arguments, goal="token"):
        return Script(name, on, (python, "-I", "-S", "-c", text, log, *arguments), goal=goal)

    return (
        wrong("control: acknowledges before it writes", EARLY, "{token}"),
        wrong("control: acknowledges before it replaces", EARLY_REPLACE, "{token}", goal="latest"),
        wrong("control: rewrites a log in place", REWRITE, "{token}"),
        wrong("control: removes before it copies", REMOVE_FIRST, "{base}/state", goal="readable"),
    )


def matching(script, only):
    """Returns a script with the layouts for which `only`, a regular expression, matches its name and the
    layout, such as `append, codex`."""
    on = {layout: fixture for layout, fixture in script.on.items() if re.search(only or "", f"{script.name}, {layout}")}
    return replace(script, on=on)


def chosen(only=None):
    """Yields the scripts whose verbs this program has."""
    for script in SCRIPTS:
        script = matching(script, only)
        if not script.on:
            continue
        if has(script.needs):
            yield script
        else:
            print(f"SKIPPED {script.name}: this program has no {' '.join(script.needs)}")


def with_old_rename(only=None):
    """Yields the scripts that move files, as on a file system with an old rename."""
    for script in chosen() if can_be_old() else ():
        script = replace(script, name=f"{script.name}, old rename", old_rename=True)
        if script.name.removesuffix(", old rename") in MOVES and matching(script, only).on:
            yield matching(script, only)


def gate(full, seed=1, only=None, each=None):
    """Runs the gate. `each` limits the points per script and layout; the short form has six."""
    begin = time.monotonic()
    rows = []
    dice = random.Random(seed)
    with ThreadPoolExecutor(2) as pool:
        for script in (*chosen(only), *with_old_rename(only)):
            row = Row("1", script.name, ", ".join(script.on), 0, 0, 0, 0)
            started = time.monotonic()
            jobs = []
            for layout in script.on:
                plan = Plan(script, layout)
                at = plan.points
                if each or not full:
                    at = dice.sample(at, min(each or 6, len(at)))
                for point in at:
                    second, reader = dice.choice(plan.points), dice.choice(READERS)
                    jobs.append(pool.submit(interrupt, plan, point, second, reader))
            _add(row, jobs)
            row.seconds = time.monotonic() - started
            rows.append(row)
            if full:
                print(f"    {' | '.join(row.cells())}", flush=True)
        caught, wrong = 0, controls()
        for script in wrong:
            plan = Plan(script, "chorus")
            jobs = [pool.submit(interrupt, plan, point, None) for point in plan.points]
            caught += any([job.result().failures for job in jobs])
        caught += silent_reader()
    total = Row("1", "killed at every call", str(FAST), 0, 0, 0, 0)
    for row in rows:
        total.points += row.points
        total.kills += row.kills
        total.acks += row.acks
        total.lost += row.lost
        total.failures += row.failures
    total.control = f"{caught} of {len(wrong) + 1} caught"
    if caught != len(wrong) + 1:
        total.failures.append("a wrong program was not caught")
    total.seconds = time.monotonic() - begin
    return [*rows, total] if full else [total]


def _add(row, jobs):
    for job in jobs:
        tally = job.result()
        row.points += tally.points
        row.kills += tally.kills
        row.acks += tally.acks
        row.lost += len(tally.failures)
        row.failures += tally.failures


if __name__ == "__main__":
    from table import show

    arguments = sys.argv[1:]
    found = gate("--full" in arguments, only=next((a for a in arguments if a[0] != "-"), None))
    show(found)
    for row in found:
        for failure in row.failures[:20]:
            print(failure)
