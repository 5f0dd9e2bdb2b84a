"""Mutates the storage core one place at a time and checks that the tests of the library notice.

    ./test --mutants                       all files of .cargo/mutants.toml
    ./test --mutants crates/annals/src/jsonl/scan.rs
    ./test --mutants --again               only new mutants and those the last run did not catch

cargo-mutants lists the mutations. It would build the library once per mutant, which takes days;
here all are built at once and one is selected at run time (gates/switched.py). Every test is first
run alone to record which mutants it reaches. A mutant is then run with the tests that reach it, the
quickest first, until one fails.

Every missed mutant must be explained in gates/mutants-known.txt, or the run fails.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from switched import REPOSITORY, Tree, listed

KNOWN = REPOSITORY / "gates" / "mutants-known.txt"
# An append that does nothing: if no test notices it, this gate does not work.
CONTROL = ("crates/annals/src/jsonl/append.rs", "Log::append_all")
# A mutant may fill memory, disks and process tables, and may remove files. So where permitted, a
# test sees everything except its scratch directory read-only.
LIMITS = "ulimit -v 12000000; ulimit -f 4000000; ulimit -c 0; "
SEALED = ["unshare", "-m", "sh", "-c", LIMITS + 'mount -o remount,bind,ro / && exec "$@"', "sh"]
OPEN = ["sh", "-c", LIMITS + 'exec "$@"', "sh"]
# Tests that take up to this many seconds together run in one process.
FIRST_TURN = 0.3
LAST_TURN = 20.0
# A process that uses no processor time for this many seconds hangs. No test sleeps as long.
STILL = 8.0


class Test:
    """One test of one of the test programs."""

    def __init__(self, program, name):
        self.program = program
        self.name = name
        self.seconds = 0.0
        self.reached = set()


class Runner:
    """Runs tests with a selected mutant."""

    def __init__(self, tree, programs, nice):
        self.tree = tree
        self.programs = programs
        self.nice = nice
        room = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
        self.room = Path(tempfile.mkdtemp(prefix="annals-mutants-", dir=room))
        self.shell = SEALED if self.can(SEALED) else OPEN
        self.killers = collections.defaultdict(collections.Counter)
        self.lock = threading.Lock()

    def can(self, shell):
        probe = [*shell, "touch", str(self.room / "probe")]
        return subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode == 0

    def listed(self):
        """Returns all tests except ignored ones."""
        tests = []
        for program, path in self.programs.items():
            names = [self.names(path), self.names(path, "--ignored")]
            tests += [Test(program, name) for name in names[0] if name not in names[1]]
        return tests

    def names(self, path, *more):
        command = [path, "--list", "--format=terse", *more]
        told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        return [line.removesuffix(": test") for line in told.splitlines() if line.endswith(": test")]

    def run(self, tests, number, limit, record=None):
        """Runs tests of one program; returns None, the test that failed, or "time", and the seconds
        used.

        All times are processor time, so that a busy machine does not catch a mutant. A test that
        waits forever uses none; it is detected by its idle time.
        """
        room = tempfile.mkdtemp(dir=self.room)
        environment = {**self.tree.environment, "ANNALS_MUTANT": str(number), "TMPDIR": room, "HOME": room}
        if record:
            environment["ANNALS_MUTANT_REACHED"] = str(record)
        names = [test.name for test in tests]
        shell = ["sh", "-c", f'ulimit -S -t {int(limit)}; exec "$@"', "sh", *self.shell]
        command = ["nice", f"-n{self.nice}", *shell, self.programs[tests[0].program], "--exact", "--test-threads=1", *names]
        with tempfile.TemporaryFile(dir=self.room) as output:
            process = subprocess.Popen(
                command,
                cwd=self.tree.path / "crates" / "annals",
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                ended = await_end(process.pid, limit)
                seconds = used(process.pid)
            finally:
                # Also kills processes that the tests left behind.
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
                shutil.rmtree(room, ignore_errors=True)
            output.seek(0)
            told = output.read().decode(errors="replace")
        if not ended or process.returncode == -signal.SIGXCPU:
            return "time", seconds
        if process.returncode == 0:
            return None, seconds
        begun = [line for line in told.splitlines() if line.startswith("test ")]
        failed = [line for line in begun if line.endswith("FAILED")] or begun[-1:]
        return failed[0].split()[1] if failed else names[0], seconds

    def learn(self, test):
        """Runs a test alone without a mutant, to record its duration and the mutants it reaches."""
        record = self.room / f"reached-{id(test)}"
        failed, test.seconds = self.run([test], 0, 600, record)
        if failed:
            # Recording disturbs tests that count system calls or have little disk space.
            failed, test.seconds = self.run([test], 0, 600)
        if record.is_file():
            test.reached = {int(number) for number in record.read_text().split() if number.isdigit()}
            record.unlink()
        return failed

    def judge(self, mutant, tests, patience, around):
        """Runs tests until one catches the mutant; returns the outcome and the test. `around` has
        the numbers of the mutants in the same file."""
        with self.lock:
            near = self.killers[mutant.file, mutant.function].copy()
        words = set(Path(mutant.file).with_suffix("").parts[3:])

        # First the tests that caught a mutant of this function before, then those that reach little
        # else or are named after the file.
        def rank(test):
            share = len(test.reached & around) / max(len(test.reached), 1)
            return -near[test.name], -round(4 * share), -len(words & set(re.split("::|_", test.name))), test.seconds

        order = sorted(tests, key=rank)
        spent, turn = 0.0, []
        for test, following in zip(order, [*order[1:], None]):
            turn.append(test)
            spent += test.seconds
            size = sum(test.seconds for test in turn)
            whole = following is None or following.program != test.program or near[test.name] > near[following.name]
            if not whole and size + following.seconds <= min(max(FIRST_TURN, spent), LAST_TURN):
                continue
            killer, _ = self.run(turn, mutant.number, 5 + 5 * size)
            if killer:
                with self.lock:
                    self.killers[mutant.file, mutant.function][killer] += 1
                return ("time" if killer == "time" else "caught"), (turn[-1].name if killer == "time" else killer)
            if following and patience and spent > patience:
                return "missed", "not all tests were run"
            turn = []
        return ("missed" if order else "not reached"), None

    def close(self):
        shutil.rmtree(self.room, ignore_errors=True)


def used(session):
    """Returns the processor seconds used by the processes of a session."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def await_end(process, limit):
    """Returns whether a process ends before its session uses `limit` seconds or stops using any."""
    handle = os.pidfd_open(process)
    try:
        wait, before = limit, None
        while not select.select([handle], [], [], wait)[0]:
            now = used(process)
            if now == before or now > limit:
                return False
            wait, before = STILL, now
        return True
    finally:
        os.close(handle)


def known():
    """Returns the explained mutants: key and reason."""
    lines = KNOWN.read_text().splitlines() if KNOWN.is_file() else []
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    return dict(line.rsplit(" :: ", 1) for line in lines)


class Memory:
    """Mutants that each test reached in an earlier run, for `--again`."""

    def __init__(self, path, mutants):
        self.path = path
        self.mutants = mutants
        self.numbers = {mutant.key: mutant.number for mutant in mutants}
        self.keys = {mutant.number: mutant.key for mutant in mutants}
        told = json.loads(path.read_text()) if path.is_file() else {}
        self.known, self.asked = told.get("tests", {}), set(told.get("mutants", self.numbers))

    def near(self, mutant, tests):
        """Returns the tests that reach a mutant; if unknown, those that reach its function or file,
        or all."""
        if mutant.key in self.asked:
            return [test for test in tests if mutant.number in test.reached]
        same = [other for other in self.mutants if other.file == mutant.file and other.key in self.asked]
        if not same:
            return tests
        function = {other.number for other in same if other.function == mutant.function}
        numbers = {mutant.number} | (function or {other.number for other in same})
        return [test for test in tests if numbers & test.reached]

    def seconds(self, test):
        return self.known.get(f"{test.program} {test.name}", (0, []))[0]

    def knows(self, test):
        known = self.known.get(f"{test.program} {test.name}")
        if known is None:
            return False
        test.seconds, keys = known
        test.reached = {self.numbers[key] for key in keys if key in self.numbers}
        return True

    def keep(self, tests):
        told = {}
        for test in tests:
            name = f"{test.program} {test.name}"
            # A run of single files keeps the records of other files.
            others = [key for key in self.known.get(name, (0, []))[1] if key not in self.numbers]
            told[name] = [test.seconds, [self.keys[n] for n in test.reached] + others]
        told = {**self.known, **told}
        self.path.write_text(json.dumps({"tests": told, "mutants": sorted(self.asked)}))


class Report:
    """The outcome of each mutant, saved to a file during the run."""

    def __init__(self, path, again):
        self.path = path
        self.others = json.loads(path.read_text()) if path.is_file() else {}
        self.before = self.others if again else {}
        self.outcomes = {}
        self.told = 0
        self.begin = time.monotonic()
        self.lock = threading.Lock()

    def settled(self, mutant):
        """Returns whether the last run caught the mutant. Other outcomes stay until they are
        replaced."""
        outcome = self.before.get(mutant.key)
        if outcome:
            self.outcomes[mutant.key] = outcome
        return bool(outcome) and outcome["outcome"] in ("caught", "time")

    def tell(self, mutant, outcome, by=None, left=None):
        with self.lock:
            self.outcomes[mutant.key] = {"outcome": outcome, "by": by, "name": mutant.name}
            self.told += 1
            if outcome in ("missed", "not reached"):
                print(f"  {outcome}: {mutant.name}" + (f" ({by})" if by else ""), flush=True)
            if left is not None and self.told % 100 == 0:
                minutes = (time.monotonic() - self.begin) / 60
                print(f"  {left()} to go after {minutes:.0f} minutes", flush=True)
                self.save()

    def save(self):
        self.path.write_text(json.dumps({**self.others, **self.outcomes}, indent=1))

    def close(self, mutants):
        """Prints the counts; returns whether every mutant is caught or explained."""
        self.save()
        reasons = known()
        counts = collections.Counter()
        missed = []
        for mutant in mutants:
            outcome = self.outcomes.get(mutant.key, {"outcome": "not tried"})["outcome"]
            # A mutant that only costs time may exceed the limit on a busy machine.
            if outcome in ("missed", "not reached") or outcome == "time" and mutant.key in reasons:
                outcome = "explained" if mutant.key in reasons else "missed"
                if outcome == "missed":
                    missed.append(mutant)
            elif mutant.key in reasons and outcome == "caught":
                counts["explained but caught"] += 1
                print(f"explained, but {outcome}: {mutant.key}")
            counts[outcome] += 1
        for mutant in missed:
            print(f"MISSED {mutant.key}")
        keys = {mutant.key for mutant in mutants}
        files = {mutant.key.split(" :: ", 1)[0] for mutant in mutants}
        stale = [key for key in reasons if key not in keys and key.split(" :: ", 1)[0] in files]
        for key in stale:
            print(f"explained, but no longer there: {key}")
        print(f"{len(mutants)} mutants: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
        return not missed and not stale and not counts["explained but caught"]


def main():
    parser = argparse.ArgumentParser(prog="./test --mutants", description="mutation tests of the storage core")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--again", action="store_true", help="only what the run before did not catch")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--patience", type=float, metavar="SECONDS", help="give a mutant to no more than so many seconds of tests")
    parser.add_argument("--scratch", type=Path, help="where the copy and its builds are kept")
    parser.add_argument("--slowest", type=float, metavar="SECONDS", help="leave out tests that took longer in a run before")
    parser.add_argument("--nice", type=int, default=10, help="at which priority the tests are run")
    parser.add_argument("--no-singles", action="store_true", help="leave out those that need a build each")
    arguments = parser.parse_args()
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    scratch = (arguments.scratch or target / "mutants").resolve()
    scratch.mkdir(parents=True, exist_ok=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before its time; --again goes on from here"))
    mutants = listed(arguments.files)
    print(f"{len(mutants)} mutants in {len({mutant.file for mutant in mutants})} files", flush=True)
    tree = Tree(scratch)
    built, singles, unviable, programs = tree.build(mutants)
    print(f"{len(built)} built at once, {len(singles)} each by itself, {len(unviable)} do not compile", flush=True)
    if programs is None:
        sys.exit("the tests do not compile")
    report = Report(scratch / "outcomes.json", arguments.again)
    for mutant in unviable:
        report.tell(mutant, "unviable")
    runner = Runner(tree, programs, arguments.nice)
    try:
        return 0 if run(arguments, tree, runner, report, mutants, built, singles) else 1
    finally:
        report.save()
        runner.close()


def run(arguments, tree, runner, report, mutants, built, singles):
    if runner.shell is OPEN:
        print("  SKIPPED: no mount namespaces here, so mutants could write to this machine")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        memory = Memory(tree.scratch / "reached.json", mutants)
        tests = [test for test in runner.listed() if not arguments.slowest or memory.seconds(test) <= arguments.slowest]
        fresh = [test for test in tests if not (arguments.again and memory.knows(test))]
        if len(fresh) == len(tests):
            memory.asked |= set(memory.numbers)
        try:
            failures = list(pool.map(runner.learn, fresh))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        memory.keep(tests)
        red = [f"{test.program} {test.name}: {failed}" for test, failed in zip(fresh, failures) if failed]
        if red:
            print("tests that fail without any mutant:\n" + "\n".join(red))
            return False
        total = sum(test.seconds for test in tests)
        print(f"control: {len(fresh)} tests pass without a mutant; all {len(tests)} take {total:.0f} s", flush=True)
        if slow := sorted(tests, key=lambda test: -test.seconds)[:5]:
            print("  slowest: " + ", ".join(f"{test.name} {test.seconds:.0f} s" for test in slow), flush=True)

        todo = [mutant for mutant in built if not report.settled(mutant)]
        # New mutants first, then those of the lower layers.
        todo.sort(key=lambda mutant: (mutant.key in report.before, *mutant.weight))
        left = len(todo)
        around = collections.defaultdict(set)
        for mutant in built:
            around[mutant.file].add(mutant.number)

        def judge(mutant):
            nonlocal left
            outcome, by = runner.judge(mutant, memory.near(mutant, tests), arguments.patience, around[mutant.file])
            left -= 1
            report.tell(mutant, outcome, by, lambda: left)

        try:
            list(pool.map(judge, todo))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for mutant in singles:
        if report.settled(mutant):
            continue
        if arguments.no_singles:
            report.tell(mutant, "not tried")
            continue
        single(tree, runner, report, mutant, built, tests, arguments.patience)
    control = [report.outcomes[mutant.key] for mutant in built if (mutant.file, mutant.function) == CONTROL]
    if control:
        blind = [outcome for outcome in control if outcome["outcome"] != "caught"]
        print("control: an append that does nothing is " + ("MISSED" if blind else "caught"))
        if blind:
            return False
    return report.close(mutants)


def single(tree, runner, report, mutant, built, tests, patience):
    """Builds one mutant separately, and runs it with all tests that reach its file."""
    tree.single(mutant)
    # Little changes between two such builds, and each is run once.
    programs = tree.tests("single", CARGO_INCREMENTAL="1", CARGO_PROFILE_DEV_OPT_LEVEL="0")
    if programs is None:
        report.tell(mutant, "unviable")
    else:
        numbers = {other.number for other in built if other.file == mutant.file}
        near = [test for test in tests if numbers & test.reached]
        runner.programs = programs
        report.tell(mutant, *runner.judge(mutant, near, patience, numbers))


if __name__ == "__main__":
    sys.exit(main())
