"""Runs the gates and prints one table of their results.

    python3 gates/run.py --short          what ./test runs: seconds
    python3 gates/run.py --full           what ./test --gates runs: about an hour
    python3 gates/run.py --full 1 5       only these gates
    python3 gates/run.py --full 1 --seed 7
    python3 gates/run.py --full 1 5 6 --only 'keep|, codex'     operations whose name and layout match
    python3 gates/run.py --full 11 --only 'live, clog: archive'    pairs whose name matches
    python3 gates/run.py --full 12 --only 'plain, clog: show'      verbs whose name matches
    python3 gates/run.py --full 1 5 --sample 40     random points of each operation; 5: states to continue from
    python3 gates/run.py --full 11 12 --sample 40   random points of each state and layout, and of each verb

Gates 1, 5, 6, 11 and 12 run the built program under strace; 2, 3, 4, 8 and 9 are tests of the
library in their full form; 7 is cargo-fuzz; 10 runs the program next to other writers. A gate that
cannot run on this machine is reported as skipped, not as passed.
"""

import argparse
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import crash
import eio
import faults
import foreign
import kill
import pairs
import shutdown
import stage
from mounts import mounted
from stage import FAST, REPOSITORY
from table import Row, show

FUZZ_RUNS = 1_000_000
# The crate of the storage engine.
JSONL = "annals-jsonl"
# The library denies unsafe code but for one call without pointers, so an address sanitizer has nothing to find in it; debug
# assertions and overflow checks are on.
SANITIZER = ("--sanitizer", "none")
FUZZ_OPTIONS = ("-rss_limit_mb=2048", "-timeout=30", "-print_final_stats=1")
# Larger inputs repeat what smaller ones do. They are slow where a whole session is read several
# times or where each prefix of a damaged line is parsed.
FUZZ_LONGEST = dict.fromkeys(("check", "mend", "prices", "search", "session"), 1024)
# Seeds of manifests are longer, and a truncated line lists nothing.
FUZZ_LONGEST.update(compressed=8192, manifest=8192)
# Entropic scheduling of thousands of inputs took longer than running them, and covered less.
FUZZ_PLAIN = ("session",)


def tests(gate, names, what, environment=None, where="disk", crate="annals"):
    """Runs tests of a crate in their full form and returns rows of their results."""
    begin = time.monotonic()
    environment = {**os.environ, "ANNALS_GATES": "full", **(environment or {})}
    command = [str(binary(crate)), "--nocapture", "--test-threads=1", *names]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        env=environment,
        cwd=REPOSITORY / "crates" / crate,
        check=False,
    )
    told = [json.loads(line[5:]) for line in run.stdout.splitlines() if line.startswith("GATE ")]
    told = [line for line in told if line["gate"] == gate]
    controls = [line["control"] for line in told if "control" in line]
    rows = []
    for line in told:
        if "what" in line:
            counts = {name: line[name] or None for name in ("points", "kills", "acks")}
            rows.append(Row(str(gate), line["what"], where, **counts, lost=line["lost"]))
    rows = rows or [Row(str(gate), what, where)]
    rows[-1].control = f"{len(controls)} caught" if controls else "-"
    rows[-1].seconds = time.monotonic() - begin
    if run.returncode != 0 or not any("what" in line for line in told):
        rows[-1].failures.append(f"{' '.join(names)}: {run.stdout[-2000:]}{run.stderr[-2000:]}")
    return rows


@functools.cache
def binary(crate="annals"):
    """Builds the integration tests of a crate and returns the path of the test binary."""
    built = subprocess.run(
        ["cargo", "test", "-p", crate, "--test", "it", "--no-run", "--message-format=json"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in built.stdout.splitlines()]
    paths = [line["executable"] for line in lines if line.get("executable")]
    return Path(paths[-1])


def places(size, skipped):
    """Yields every available file system: the disk, tmpfs, and as root loop-mounted ones."""
    yield "disk", None
    for kind in ("tmpfs", "ext4", "xfs", "btrfs"):
        with mounted(kind, size) as place:
            if isinstance(place, Path):
                yield kind, place
            else:
                skipped.append(f"{kind}: {place}")


def gate_2(skipped):
    rows = []
    for kind, place in places("2G", skipped):
        environment = {"ANNALS_GATE_DIR": str(place)} if place else {}
        names = ["append::threads_and_processes"]
        if kind == "disk":
            names.append("append::control_writers_that_use_two_writes")
        rows += tests(2, names, "64 writers", environment, kind, JSONL)
    return rows


def gate_3(skipped):
    environment = {"ANNALS_GATE_DIR": str(FAST)}
    return tests(3, ["kill::"], "writers killed at random", environment, str(FAST), JSONL)


def gate_4(skipped):
    rows = tests(4, ["append::a_file_size", "append::control_a_writer_that"], "no room", crate=JSONL)
    quick = {"ANNALS_GATE_DIR": str(FAST)}
    rows += tests(4, ["gate_room::a_document", "gate_room::a_session"], "no room", quick, str(FAST))
    for kind, size in (("tmpfs", "1M"), ("ext4", "8M"), ("xfs", "320M"), ("btrfs quota", "256M")):
        with mounted(kind, size) as place:
            if not isinstance(place, Path):
                skipped.append(f"a full {kind}: {place}")
                continue
            environment = {"ANNALS_GATE_SMALL": str(place)}
            rows += tests(4, ["gate_room::a_full_disk"], "a full disk", environment, kind)
    return rows


def gate_7(skipped, only):
    """Runs every fuzz target, starting from the seeds of the fixtures."""
    fuzz = REPOSITORY / "fuzz"
    if subprocess.run(["cargo", "+nightly", "--version"], capture_output=True).returncode != 0:
        skipped.append("gate 7: no nightly compiler (rustup toolchain install nightly)")
        return []
    if shutil.which("cargo-fuzz") is None:
        print("installing cargo-fuzz, which gate 7 needs", flush=True)
        subprocess.run(["cargo", "install", "--locked", "cargo-fuzz"], check=True)
    seeds = {**os.environ, "ANNALS_SEEDS": str(fuzz / "corpus")}
    command = [str(binary()), "--exact", "gate_fuzz::write_seeds", "--include-ignored"]
    subprocess.run(command, env=seeds, cwd=REPOSITORY / "crates" / "annals", check=True)
    subprocess.run(["cargo", "+nightly", "fuzz", "build", *SANITIZER], cwd=fuzz, check=True)
    listed = subprocess.run(
        ["cargo", "+nightly", "fuzz", "list"], cwd=fuzz, capture_output=True, text=True, check=True
    )
    rows = []
    for target in listed.stdout.split():
        # The control runs always.
        if only and only not in target and target != "planted":
            continue
        rows.append(fuzz_target(fuzz, target))
        print(f"    {' '.join(rows[-1].cells())}", flush=True)
    return rows


def fuzz_target(fuzz, target):
    begin = time.monotonic()
    planted = target == "planted"
    runs = int(os.environ.get("ANNALS_GATE_FUZZ", FUZZ_RUNS))
    command = ["cargo", "+nightly", "fuzz", "run", *SANITIZER, target, "--", f"-runs={runs}", "-seed=1"]
    if planted:
        # Starts from an empty corpus, so that the panic is found and not given.
        (fuzz / "corpus" / "planted").mkdir(parents=True, exist_ok=True)
    options = [f"-max_len={FUZZ_LONGEST.get(target, 4096)}", f"-entropic={int(target not in FUZZ_PLAIN)}"]
    run = subprocess.run(
        [*command, *options, *FUZZ_OPTIONS],
        cwd=fuzz,
        capture_output=True,
        text=True,
        errors="replace",
        # Each input is small, and waking threads takes longer than reading it.
        env={**os.environ, "RAYON_NUM_THREADS": "1"},
    )
    done = re.search(r"stat::number_of_executed_units:\s+(\d+)", run.stderr)
    row = Row("7", f"fuzz {target}", "nightly", int(done.group(1)) if done else None)
    row.seconds = time.monotonic() - begin
    if planted:
        caught = run.returncode != 0 and "planted" in run.stderr
        row.control = "1 of 1 caught" if caught else "not caught"
        row.failures += [] if caught else ["the planted panic was not found"]
    else:
        row.lost = int(run.returncode != 0)
        row.failures += [run.stderr[-3000:]] if run.returncode != 0 else []
    return row


def full(wanted, seed, only, sample):
    skipped = []

    def power():
        # Shutdowns are tests of writers, not of operations, so `--only` excludes them.
        rows = crash.gate(True, seed, only, sample)
        return rows if only else rows + shutdown.gate(binary(JSONL), skipped, 100, seed)

    gates = {
        "1": lambda: kill.gate(True, seed, only, sample),
        "2": lambda: gate_2(skipped),
        "3": lambda: gate_3(skipped),
        "4": lambda: gate_4(skipped),
        "5": power,
        "6": lambda: eio.gate(True, seed, only),
        "7": lambda: gate_7(skipped, only),
        "8": lambda: tests(8, ["gate_histories::"], "histories", {"ANNALS_GATE_DIR": str(FAST)}, str(FAST)),
        "9": lambda: tests(9, ["laws::law_1", "laws::law_5"], "round trips"),
        "10": lambda: foreign.gate(True, seed),
        "11": lambda: pairs.gate(True, seed, only, sample),
        "12": lambda: faults.gate(True, seed, only, sample),
    }
    return run_all(gates, wanted, skipped)


def short(wanted, seed, only):
    """Runs the gates that are not library tests; those run with all other tests."""
    gates = {
        "1": lambda: kill.gate(False, seed, only),
        "5": lambda: crash.gate(False, seed, only),
        "6": lambda: eio.gate(False, seed, only),
        "10": lambda: foreign.gate(False, seed),
        "11": lambda: pairs.gate(False, seed, only),
        "12": lambda: faults.gate(False, seed, only),
    }
    return run_all(gates, wanted, [])


def run_all(gates, wanted, skipped):
    rows = []
    for name, gate in gates.items():
        if wanted and name not in wanted:
            continue
        print(f"gate {name}", flush=True)
        found = gate()
        show(found)
        rows += found
        for row in found:
            for failure in row.failures[:20]:
                print(f"  FAILED {failure}", file=sys.stderr)
    print()
    show(rows)
    for what in dict.fromkeys(skipped):
        print(f"SKIPPED {what}")
    return not any(row.failures for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--short", action="store_true")
    form.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="gates 1, 5, 6, 11 and 12: names that match; 7: that contain this")
    parser.add_argument(
        "--sample", type=int, help="gates 1, 5, 11 and 12: how many random points, with --full; all without it"
    )
    parser.add_argument("gates", nargs="*", help="the numbers of the gates; all without any")
    arguments = parser.parse_args()
    if shutil.which("strace") is None:
        sys.exit("strace is not installed: gates 1, 5, 6, 11 and 12 cannot be run")
    if "ANNALS_GATE_PROGRAM" not in os.environ:
        subprocess.run(["cargo", "build", "-q", "-p", "annals-cli", "--locked"], cwd=REPOSITORY, check=True)
    with tempfile.TemporaryDirectory() as aside:
        # A rebuild during the run must not change the tested program.
        stage.PROGRAM = Path(shutil.copy2(stage.PROGRAM, aside))
        if arguments.full:
            passed = full(arguments.gates, arguments.seed, arguments.only, arguments.sample)
        else:
            passed = short(arguments.gates, arguments.seed, arguments.only)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
