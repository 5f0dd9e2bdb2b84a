"""Gate 5 on real file systems: a file system is shut down under its writers, as by a power loss,
and mounted again. Every record acknowledged as on disk must be there.

Needs root, loop devices and `xfs_io` (package xfsprogs), whose `shutdown` xfs and ext4 support.
"""

import os
import random
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

from mounts import mounted
from stage import REPOSITORY
from table import Row

LINE = re.compile(rb'^\{"id":"([^"]+)","pad":"x*"\}$')


def writer(binary, part, name, log):
    """Starts a process that appends records and prints each one that it acknowledges."""
    parts = {"PART": part, "WRITER": name, "LOG": str(log)}
    return subprocess.Popen(
        [str(binary), "--exact", "kill::role", "--include-ignored", "--nocapture"],
        env={**os.environ, **{f"ANNALS_TEST_{key}": value for key, value in parts.items()}},
        cwd=REPOSITORY / "crates" / "annals-jsonl",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


class Listener(threading.Thread):
    """Records the acknowledgements of a writer with their times."""

    def __init__(self, child):
        super().__init__(daemon=True)
        self.child, self.heard = child, []
        self.start()

    def run(self):
        for line in self.child.stderr:
            if line.startswith(b"ack "):
                self.heard.append((time.monotonic(), line[4:].strip()))


def power_loss(kind, place, binary, part, dice):
    """Loses power once; returns the number of earlier acknowledged records, and those that are
    lost.

    A sync during the shutdown of a file system may return success for data that is lost. With a
    real power loss the machine would be off by then, so later acknowledgements do not count.
    """
    log = place / f"{part}.jsonl"
    log.write_bytes(b"")
    subprocess.run(["sync", "-f", str(log)], check=True)
    writers = [Listener(writer(binary, part, f"w{number}", log)) for number in range(3)]
    wanted = dice.randint(1, 60)
    while len(writers[0].heard) < wanted and writers[0].is_alive():
        time.sleep(0.001)
    off = time.monotonic()
    subprocess.run(["xfs_io", "-x", "-c", "shutdown", str(place)], check=True, capture_output=True)
    for listener in writers:
        listener.child.kill()
        listener.join()
        listener.child.wait()
    heard = [pair for listener in writers for pair in listener.heard]
    names = [name for moment, name in heard if moment < off]
    image = place.parent / "image"
    subprocess.run(["umount", str(place)], check=True)
    subprocess.run(["mount", "-t", kind, "-o", "loop", str(image), str(place)], check=True)
    found = map(LINE.match, log.read_bytes().split(b"\n"))
    stands = {line.group(1) for line in found if line}
    return len(names), [name for name in names if name not in stands]


def gate(binary, skipped, rounds, seed=1):
    rows = []
    if shutil.which("xfs_io") is None:
        skipped.append("gate 5 on real file systems: no xfs_io (package xfsprogs)")
        return rows
    for kind in ("xfs", "ext4"):
        with mounted(kind, "400M") as place:
            if not isinstance(place, Path):
                skipped.append(f"gate 5 on {kind}: {place}")
                continue
            dice, begin = random.Random(seed), time.monotonic()
            row = Row("5", "shut down under writers", kind, 0, None, 0, 0)
            for _ in range(rounds):
                acks, lost = power_loss(kind, place, binary, "disk", dice)
                row.points += 1
                row.acks += acks
                row.lost += len(lost)
                row.failures += [f"{kind}: {name.decode()} is gone" for name in lost]
            # The control acknowledges records that are not on disk yet.
            caught = any(power_loss(kind, place, binary, "os", dice)[1] for _ in range(10))
            row.control = "1 of 1 caught" if caught else "not caught"
            row.failures += [] if caught else [f"{kind}: a writer without syncs was not caught"]
            row.seconds = time.monotonic() - begin
            rows.append(row)
    skipped.append("gate 5 on btrfs: it knows no shutdown")
    return rows
