#!/usr/bin/env python3
"""Generates a deterministic database of OpenCode 1.18: sessions, messages and parts, in the schema of a recorded one.

    opencode.py --out DIR --size 1G --sessions 2000

Writes DIR/opencode.db and DIR/manifest.json with the truth: sessions, messages, output tokens, and how many messages have
the rare word. One session has a tenth of all messages. The same options and seed give the same rows. Needs the standard
library alone, and the schema of fixtures/opencode.
"""
import argparse
import contextlib
import json
import random
import shutil
import sqlite3
from pathlib import Path

from codex import WORDS, size

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "opencode" / "1.18-s02-tools" / "opencode.db"
# The first session was created at this time, in milliseconds.
START = 1_777_600_000_000
DAY = 86_400_000
RARE = "quetzalcoatl"
TABLES = ("event", "event_sequence", "part", "message", "todo", "session")


class Generator:
    def __init__(self, database, seed):
        self.database, self.rng = database, random.Random(seed)
        self.truth = {"sessions": 0, "messages": 0, "output_tokens": 0, "rare": 0, "bytes": 0}
        self.count = 0
        self.text = " ".join(self.rng.choice(WORDS) for _ in range(400_000))

    def id(self, prefix, time):
        self.count += 1
        return f"{prefix}_{(time * 4096 + self.count % 4096) & 0xFFFFFFFFFFFF:012x}{self.count:014x}"

    def words(self, length):
        at = self.rng.randrange(len(self.text) - length)
        return self.text[at:at + length]

    def session(self, time, turns):
        session = self.id("ses", time)
        values = {"id": session, "project_id": "global", "slug": f"s-{self.count}", "directory": f"/home/dev/project-{self.rng.randrange(60):02}",
                  "title": self.words(40).strip(), "version": "1.18.33", "agent": "build", "time_created": time, "time_updated": time}
        self.database.execute(f"INSERT INTO session ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", list(values.values()))
        self.truth["sessions"] += 1
        output = 0
        for _ in range(turns):
            time += self.rng.randrange(2_000, 60_000)
            prompt = self.message(session, time, {"role": "user", "time": {"created": time}, "agent": "build",
                                                  "model": {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}})
            text = self.words(self.rng.randrange(40, 400))
            if self.rng.random() < 0.0005:
                self.truth["rare"] += 1
                text += " " + RARE
            self.part(session, prompt, time, {"type": "text", "text": text})
            time += self.rng.randrange(1_000, 20_000)
            tokens = {"input": self.rng.randrange(10, 2_000), "output": self.rng.randrange(10, 2_000), "reasoning": 0,
                      "cache": {"read": self.rng.randrange(50_000), "write": 0}}
            reply = self.message(session, time, {"role": "assistant", "parentID": prompt, "mode": "build", "agent": "build",
                                                 "path": {"cwd": values["directory"], "root": "/"}, "cost": 0, "tokens": tokens,
                                                 "modelID": "claude-sonnet-4-5", "providerID": "anthropic",
                                                 "time": {"created": time, "completed": time + 900}, "finish": "stop"})
            self.part(session, reply, time, {"type": "text", "text": self.words(self.rng.randrange(100, 1_500))})
            length = min(int(self.rng.paretovariate(0.9) * 900), 300_000)
            self.part(session, reply, time, {"type": "tool", "tool": "bash", "callID": f"call_{self.count}", "state": {
                "status": "completed", "input": {"command": self.words(60)}, "output": self.words(length), "title": "", "metadata": {},
                "time": {"start": time, "end": time + 500}}})
            output += tokens["output"]
        self.truth["output_tokens"] += output
        self.database.execute("UPDATE session SET time_updated = ?, tokens_output = ? WHERE id = ?", (time, output, session))

    def message(self, session, time, data):
        message = self.id("msg", time)
        self.database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (message, session, time, time, json.dumps(data)))
        self.truth["messages"] += 1
        return message

    def part(self, session, message, time, data):
        data = json.dumps(data)
        self.truth["bytes"] += len(data)
        self.database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", (self.id("prt", time), message, session, time, time, data))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--size", required=True, type=size)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "opencode.db"
    for end in ("", "-wal", "-shm"):
        source = Path(f"{RECORDED}{end}")
        if source.exists():
            shutil.copy(source, f"{path}{end}")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("BEGIN")
        for table in TABLES:
            database.execute(f"DELETE FROM {table}")
        made = Generator(database, args.seed)
        # Measured: a turn takes about 12 kB of the database.
        turns = args.size / 12_000
        made.session(START, int(turns / 10))
        number = 0
        # Measured: ids, keys and free space are a fifth of the database.
        while made.truth["bytes"] < args.size * 0.78:
            number += 1
            made.session(START + number * DAY * 180 // args.sessions, made.rng.randrange(1, max(2, int(turns * 1.8 / args.sessions))))
            if number % 100 == 0:
                database.execute("COMMIT")
                database.execute("BEGIN")
        database.execute("COMMIT")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    made.truth["database_bytes"] = path.stat().st_size
    (args.out / "manifest.json").write_text(json.dumps(made.truth, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
