"""Gate 1: every operation killed at every system call, and killed again while it is made good.

The calls are those that touch the tree or answer; the start of a process makes others, which are
of no interest. `strace` counts calls by their name, so a point is a name and a number.
"""

import random
import re
import shutil
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch

import oracle
from scripts import PLAIN, SCRIPTS, Script
from stage import FAST, Stage, has
from table import Row

KILLED = (-9, 137)
CALL = re.compile(r"^(\d+)\s+(\w+)\((.*)$")


class Plan:
    """One script on one layout: the points, and what an undisturbed run does."""

    def __init__(self, script, layout):
        self.script, self.layout = script, layout
        fixture = script.on[layout]
        with Stage(layout, fixture) as first:
            self.first_root = _part(first.tree(), "root/")
            self.id = first.first_session()
        self._trace()

    def stage(self):
        """A fresh stage, prepared. Each is prepared by itself: state may know the root's path."""
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
                around=("strace", "-f", "-y", "-qq", "-o", str(trace)),
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
    """Each call that touches the tree or answers, as its name and its number among its like."""
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


def strike(stage, arguments, point):
    """Runs a command and kills it at a point; tells whether it came that far."""
    name, number = point
    inject = f"inject={name}:signal=KILL:when={number}"
    around = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={name}", "-e", inject)
    return stage.run(arguments, around=around)


class Tally:
    """What was done at some points."""

    def __init__(self):
        self.points = self.kills = self.acks = 0
        self.failures = []


def interrupt(plan, point, second):
    """Kills at one point, perhaps once more while it is run again, then lets it finish."""
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
            run = strike(stage, plan.spell(script.command, token), at)
            killed = run.returncode in KILLED
            tally.points += 1
            tally.kills += killed
            acked = bool(run.stdout) or run.returncode == 0
            tally.acks += acked
            acknowledged.append((token, acked))
            look("killed" if turn == 0 else f"killed again at {second[0]} {second[1]}")
        run = stage.run(plan.spell(script.command, "token-last"))
        if run.returncode not in script.again or b"panicked" in run.stderr:
            tally.failures.append(f"{where}: a second run fails: {run.stderr.decode()[:300]}")
        acknowledged.append(("token-last", run.returncode == 0))
        tally.acks += run.returncode == 0
        tree = look("run again")
        for command in script.finish:
            run = stage.run(plan.spell(command, "finish"))
            if run.returncode != 0:
                tally.failures.append(f"{where}: {command[0]} fails: {run.stderr.decode()[:300]}")
            tree = stage.tree()
        tally.failures.extend(f"{where}: {what}" for what in unreached(plan, tree))
    return tally


def unsaid(plan, tree, acknowledged):
    """Which words were acknowledged and do not stand there, or stand there too often."""
    counted = [(token, acked, oracle.count(tree, token)) for token, acked in acknowledged]
    if plan.script.goal == "token":
        for token, acked, copies in counted:
            if acked and copies != plan.copies or copies > plan.copies:
                told = "an acknowledged" if acked else "a"
                yield f"{copies} of {plan.copies} of {told} {token}"
    elif plan.script.goal == "latest":
        # The last that was acknowledged, or one that came after it.
        last = max((at for at, (_, acked, _) in enumerate(counted) if acked), default=None)
        if last is not None and all(copies != plan.copies for *_, copies in counted[last:]):
            yield f"{counted[last][0]} was acknowledged, and neither it nor a later one stands there"
        for token, _, copies in counted:
            if copies > plan.copies:
                yield f"{copies} of {plan.copies} of a {token}"


def lost(plan, stage, tree):
    """What is lost, once what is kept in another form was asked for too."""
    missing = oracle.lost(stage.before, tree, plan.script)
    if missing and plan.script.unpack:
        stage.run(plan.spell(plan.script.unpack, ""))
        given = _part(stage.tree(), "out/")
        shutil.rmtree(stage.base / "out", ignore_errors=True)
        missing = oracle.lost(stage.before, {**tree, **given}, plan.script)
    return missing


def _without_inodes(tree):
    """A tree without the inodes of logs that companions name: they are new in every run."""
    companion = {path: data for path, data in tree.items() if str(path).endswith(".annals") and isinstance(data, bytes)}
    return {**tree, **{path: re.sub(rb',"inode":\d+', b"", data) for path, data in companion.items()}}


def unreached(plan, tree):
    """What is not as the operation is to leave it. Where a log is only added to, what was torn stays."""
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


PLACE = re.compile(rb'^\{"offset":\d+,', re.MULTILINE)


def _mended(made, wanted):
    """Whether all that a log has too much are beginnings of its lines, which were torn."""
    if not made or not wanted:
        return False
    # Behind a torn line of a log, all that its companion tells of stands elsewhere.
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
        if not any(fnmatch(path, pattern) for pattern in oracle.REGISTERS)
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


def controls():
    """The wrong programs, as scripts; each must be caught."""
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


def chosen(only=None):
    """The scripts of the table whose verbs the program has."""
    for script in SCRIPTS:
        if only and only not in script.name:
            continue
        if has(script.needs):
            yield script
        else:
            print(f"SKIPPED {script.name}: this program has no {' '.join(script.needs)}")


def gate(full, seed=1, only=None, each=None):
    """Runs the gate; `each` bounds the points of a script on a layout in the short form."""
    begin = time.monotonic()
    rows = []
    dice = random.Random(seed)
    with ThreadPoolExecutor(2) as pool:
        for script in chosen(only):
            row = Row("1", script.name, ", ".join(script.on), 0, 0, 0, 0)
            started = time.monotonic()
            jobs = []
            for layout in script.on:
                plan = Plan(script, layout)
                at = plan.points
                if not full:
                    at = dice.sample(at, min(each or 6, len(at)))
                for point in at:
                    jobs.append(pool.submit(interrupt, plan, point, dice.choice(plan.points)))
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
    total = Row("1", "killed at every call", str(FAST), 0, 0, 0, 0)
    for row in rows:
        total.points += row.points
        total.kills += row.kills
        total.acks += row.acks
        total.lost += row.lost
        total.failures += row.failures
    total.control = f"{caught} of {len(wrong)} caught"
    if caught != len(wrong):
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
