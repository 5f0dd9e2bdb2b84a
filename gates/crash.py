"""Gate 5: power loss at every moment of every operation, on a simulated disk.

Each operation is run once and recorded. Then power is cut after each of its calls, with any part of
the unsynced changes missing. In every resulting state no earlier file may be lost, and everything
acknowledged must be present. The operation is also run again: from every state in the full form,
from a few in the short one.
"""

import random
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import disk
import oracle
from kill import Plan, Tally, chosen, lost, unreached, unsaid
from scripts import PLAIN, Script
from stage import lasting, with_rows
from table import Row


def losses(pending, dice, many):
    """Yields sets of lost moments: none, all, each alone, all but each, random and torn ones."""
    yield {}
    if not pending:
        return
    yield dict.fromkeys(pending, 1)
    for at in pending[-many:]:
        yield {at: 1}
        yield {other: 1 for other in pending if other != at}
        yield {at: dice.random()}
    for _ in range(many):
        yield {at: 1 for at in pending if dice.random() < 0.5}
        yield {at: dice.choice((1, dice.random())) for at in pending if dice.random() < 0.5}


def states(recorded, dice, many):
    """Yields each distinct state after a crash: moment, whether it answered, files, directories."""
    seen = set()
    moments = {change.moment for change in recorded.changes} | set(recorded.answers)
    for node in recorded.nodes:
        moments.update(at for at, *_ in node.writes)
        moments.update(recorded.syncs.get(id(node), ()) if hasattr(recorded, "syncs") else ())
    for moment in sorted(moments):
        for lost in losses(recorded.pending(moment), dice, many):
            files, directories = recorded.crashed(moment, lost)
            answered = any(at <= moment for at in recorded.answers)
            key = hash((answered, frozenset(files.items()), frozenset(directories)))
            if key not in seen:
                seen.add(key)
                yield moment, answered, files, directories


def simulate(script, layout, seed, many, goes_on):
    """Simulates all crashes of an operation on a layout; runs it again from `goes_on` of them."""
    tally, dice = Tally(), random.Random(seed)
    plan = Plan(script, layout)
    with plan.stage() as stage:
        token = "token-crash"
        recorded, run = disk.record(stage, plan.spell(script.command, token))
        if run.returncode not in script.ends:
            raise RuntimeError(f"{script.name}, {layout}: {run.stderr.decode()}")
        done = stage.tree()
        whole = with_rows(lasting(recorded.crashed(recorded.now, {})[0]))
        if whole != done:
            odd = [path for path in whole.keys() | done.keys() if whole.get(path) != done.get(path)]
            raise RuntimeError(f"{script.name}, {layout}: the replay differs in {sorted(odd)[:3]}")
        found = list(states(recorded, dice, many))
        goes_on_from = set(dice.sample(range(len(found)), min(goes_on, len(found))))
        for number, (moment, answered, files, directories) in enumerate(found):
            tally.points += 1
            tally.acks += answered
            where = f"{script.name}, {layout}, power lost after call {moment}"
            tree = with_rows(lasting(files))
            failures = oracle.lost(stage.before, tree, script)
            if failures and script.unpack:
                stage.lay(files, directories)
                failures = lost(plan, stage, tree)
            if answered:
                failures += [
                    f"{path} was acknowledged and is {'gone' if path not in tree else 'other'}"
                    for path in done
                    if tree.get(path) != done[path]
                ]
            tally.failures += [f"{where}: {failure}" for failure in failures]
            if number in goes_on_from:
                tally.failures += [f"{where}: {what}" for what in _go_on(plan, stage, files, directories)]
    return tally


def _go_on(plan, stage, files, directories):
    """Runs the operation again in this state, as a user would after a crash, up to its goal."""
    lasts = {path: content for path, content in files.items() if "state/index-" not in path}
    stage.lay(lasts, directories)
    run = stage.run(plan.spell(plan.script.command, "token-after"))
    if run.returncode not in plan.script.again or b"panicked" in run.stderr:
        yield f"a second run fails: {run.stderr.decode()[:300]}"
    tree = stage.tree()
    said = [("token-crash", False), ("token-after", run.returncode == 0)]
    yield from (*lost(plan, stage, tree), *unsaid(plan, tree, said))
    for command in plan.script.finish:
        run = stage.run(plan.spell(command, "finish"))
        if run.returncode != 0:
            yield f"{command[0]} fails: {run.stderr.decode()[:300]}"
    yield from unreached(plan, stage.tree())


UNSYNCED = """
import os, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
os.write(log, sys.argv[2].encode() + b"\\n")
os.write(1, b"added\\n")
"""
NO_DIRECTORY = """
import os, sys
new = os.open(sys.argv[1] + ".new", os.O_WRONLY | os.O_CREAT)
os.write(new, sys.argv[2].encode() + b"\\n")
os.fsync(new)
os.rename(sys.argv[1] + ".new", sys.argv[1] + ".document")
os.write(1, b"replaced\\n")
"""
RENAMED_FIRST = """
import os, sys
was = open(sys.argv[1], "rb").read()
new = os.open(sys.argv[1] + ".new", os.O_WRONLY | os.O_CREAT)
os.write(new, was + sys.argv[2].encode() + b"\\n")
os.rename(sys.argv[1] + ".new", sys.argv[1])
os.fsync(new)
os.fsync(os.open(os.path.dirname(sys.argv[1]), os.O_RDONLY))
os.write(1, b"replaced\\n")
"""


def controls():
    """Returns wrong programs that this gate must catch."""
    python = shutil.which("python3")
    log = "{base}/root/sessions/w-app/a-main/fd7a4cec-cb2e-4533-8dd8-0e229ed8360b-messages.jsonl"
    on = {"chorus": PLAIN["chorus"]}
    texts = {
        "no sync": UNSYNCED,
        "a rename without its directory": NO_DIRECTORY,
        "a rename before the sync": RENAMED_FIRST,
    }
    return [
        Script(f"control: {name}", on, (python, "-I", "-S", "-c", text, log, "{token}"))
        for name, text in texts.items()
    ]


def gate(full, seed=1, only=None, each=None):
    """Runs the gate. The full form runs each operation again from every state, or from `each` of them."""
    begin = time.monotonic()
    total = Row("5", "power lost at every call", "simulated disk", 0, None, 0, 0)
    rows = []
    many = 12 if full else 2
    goes_on = each or (sys.maxsize if full else 4)
    with ThreadPoolExecutor(2) as pool:
        for script in chosen(only):
            row = Row("5", script.name, ", ".join(script.on), 0, None, 0, 0)
            started = time.monotonic()
            jobs = [
                pool.submit(simulate, script, layout, f"{seed} {layout}", many, goes_on)
                for layout in script.on
            ]
            for job in jobs:
                tally = job.result()
                row.points += tally.points
                row.acks += tally.acks
                row.lost += len(tally.failures)
                row.failures += tally.failures
            row.seconds = time.monotonic() - started
            rows.append(row)
            if full:
                print(f"    {' | '.join(row.cells())}", flush=True)
            total.points += row.points
            total.acks += row.acks
            total.lost += row.lost
            total.failures += row.failures
    wrong = controls()
    caught = sum(
        bool(simulate(script, "chorus", seed, many, 0).failures) for script in wrong
    )
    total.control = f"{caught} of {len(wrong)} caught"
    if caught != len(wrong):
        total.failures.append("a wrong program was not caught")
    total.seconds = time.monotonic() - begin
    return [*rows, total] if full else [total]


if __name__ == "__main__":
    from table import show

    arguments = sys.argv[1:]
    found = gate("--full" in arguments, only=next((a for a in arguments if a[0] != "-"), None))
    show(found)
    for row in found[-1:]:
        for failure in row.failures[:40]:
            print(failure)
