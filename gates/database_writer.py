"""Adds messages to a session of OpenCode's database, as its program does, and prints each text once it is
committed. `copy` is wrong: it renames a copy of the database with the message over it.

    database_writer.py insert|copy DATABASE NAME COUNT
"""

import contextlib
import json
import os
import shutil
import sqlite3
import sys


def insert(path, text):
    """Adds a message of one part to the first session, in a transaction."""
    with contextlib.closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        session, time = database.execute("SELECT id, time_updated FROM session ORDER BY id LIMIT 1").fetchone()
        message = json.dumps({"role": "user", "time": {"created": time}})
        part = json.dumps({"type": "text", "text": text})
        row = (f"msg_ffffff{text}", session, time, time, message)
        database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
        row = (f"prt_ffffff{text}", f"msg_ffffff{text}", session, time, time, part)
        database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
        database.execute("COMMIT")


def copy(path, text):
    aside = f"{path}.{os.getpid()}"
    shutil.copyfile(path, aside)
    insert(aside, text)
    os.rename(aside, path)


def main():
    kind, path, name, count = sys.argv[1:]
    for number in range(int(count)):
        text = f"{name}-{number}-end"
        {"insert": insert, "copy": copy}[kind](path, text)
        print(text, flush=True)


if __name__ == "__main__":
    main()
