"""Gate 6: every failed sync is reported. The operation fails, says so and acknowledges nothing;
earlier files stay intact, and the operation can be run again.

Many files are synced with one call for the whole file system, which no operation of the table
does, so this gate has an operation of its own for that."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import disk
import oracle
from kill import Plan, Tally, chosen, lost, matching, underived
from scripts import FAMILY, PLAIN, PYTHON, Script
from stage import lasting, with_rows
from table import Row

SYNCS = ("fsync", "fdatasync", "syncfs", "sync_file_range")


def fail(plan, point):
    """Runs the operation with one sync failing."""
    tally, script = Tally(), plan.script
    name, number = point
    where = f"{script.name}, {plan.layout}, {name} {number} fails"
    inject = f"inject={name}:error=EIO:when={number}"
    with plan.stage() as stage:
        arguments = plan.spell(script.command, "token-fails")
        recorded, run = disk.record(stage, arguments, ("-e", inject))
        tally.points += 1
        told = any(text in run.stderr + run.stdout for text in (b"os error 5", b"disk I/O error"))
        if run.returncode == 0 or run.returncode in script.ends and not told:
            tally.acks += 1
            if not _survives(plan, recorded, stage.tree()):
                tally.failures.append(f"{where}: acknowledged: {run.stdout.decode()[:200]}")
        elif b"panicked" in run.stderr or not told:
            tally.failures.append(f"{where}: not reported: {run.stderr.decode()[:200]}")
        for what in lost(plan, stage, stage.tree()):
            tally.failures.append(f"{where}: {what}")
        run = stage.run(plan.spell(script.command, "token-again"))
        if run.returncode not in script.again:
            tally.failures.append(f"{where}: a second run fails: {run.stderr.decode()[:300]}")
        for what in lost(plan, stage, stage.tree()):
            tally.failures.append(f"{where}, run again: {what}")
    return tally


def _survives(plan, recorded, done):
    """Returns whether acknowledged data is safe without the failed sync. The index may be lost and
    a session list may be stale, but a log may not."""
    everything = dict.fromkeys(recorded.pending(recorded.now), 1)
    tree = with_rows(lasting(recorded.crashed(recorded.now, everything)[0]))
    if plan.script.goal in ("token", "latest"):
        return oracle.count(tree, "token-fails") == plan.copies
    return underived(tree) == underived(done)


# Another program adds sub-agents to every session.
MULTIPLY = """
import pathlib, sys
for log in list(pathlib.Path(sys.argv[1], "projects").glob("*/*.jsonl")):
    agents = log.with_suffix("") / "subagents"
    agents.mkdir(parents=True, exist_ok=True)
    for number in range(40):
        (agents / f"agent-{number:08x}.jsonl").write_bytes(b'{"type":"gate"}\\n')
"""
MANY = Script(
    "keep many files",
    {"claude-code": FAMILY["claude-code"]},
    ("keep",),
    prepare=((PYTHON, "-I", "-S", "-c", MULTIPLY, "{root}"),),
    changes=("state/archive/keep.json",),
    goal="undone",
    needs=("keep", "--verify-all"),
)

RETRIES = """
import os, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
os.write(log, sys.argv[2].encode() + b"\\n")
try:
    os.fdatasync(log)
except OSError:
    os.fdatasync(log)
os.write(1, b"added\\n")
"""


# Does the same with the sync of the whole file system, which Python cannot call.
RETRIES_ALL = RETRIES.replace("os.fdatasync(log)", "sync()").replace(
    "log = ",
    """import ctypes
libc = ctypes.CDLL(None)
def sync():
    if libc.syncfs(log):
        raise OSError
log = """,
)


def controls():
    """Returns the wrong programs as scripts; each must be caught."""
    log = "{base}/root/sessions/w-app/a-main/fd7a4cec-cb2e-4533-8dd8-0e229ed8360b-messages.jsonl"
    on = {"chorus": PLAIN["chorus"]}
    for name, text in (("retries", RETRIES), ("retries for all files", RETRIES_ALL)):
        yield Script(f"control: {name}", on, (PYTHON, "-I", "-S", "-c", text, log, "{token}"))


def syncs(plan):
    return [point for point in plan.points if point[0] in SYNCS]


def gate(full, seed=1, only=None):
    begin = time.monotonic()
    rows = []
    total = Row("6", "every sync fails", "all layouts", 0, None, 0, 0)
    with ThreadPoolExecutor(2) as pool:
        many = [MANY] if matching(MANY, only).on else []
        for script in (*chosen(only), *many):
            layouts = list(script.on) if full else list(script.on)[:1]
            row = Row("6", script.name, ", ".join(layouts), 0, None, 0, 0)
            started = time.monotonic()
            for layout in layouts:
                plan = Plan(script, layout)
                for tally in pool.map(lambda point: fail(plan, point), syncs(plan)):
                    row.points += tally.points
                    row.acks += tally.acks
                    row.failures += tally.failures
            row.lost = len(row.failures)
            row.seconds = time.monotonic() - started
            rows.append(row)
            if full:
                print(f"    {' | '.join(row.cells())}", flush=True)
            total.points += row.points
            total.acks += row.acks
            total.failures += row.failures
    total.lost = len(total.failures)
    wrong = [Plan(script, "chorus") for script in controls()]
    caught = sum(any(fail(plan, point).failures for point in syncs(plan)) for plan in wrong)
    total.control = f"{caught} of {len(wrong)} caught"
    if caught != len(wrong):
        total.failures.append("a writer that retries was not caught")
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
