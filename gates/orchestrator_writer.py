"""Writes to an orchestrator log as the orchestrator's own design does, and reports each record.

    python3 orchestrator_writer.py copy|append|unlocked FILE NAME COUNT [--keep-lock]

`copy` and `append` are the design's two functions, verbatim except for `--keep-lock`, which leaves
the lock file in place. `unlocked` appends without the lock: the control. Each record is named on
standard output after it was written.
"""

import fcntl
import json
import os
import sys
import tempfile
import time


class FileLockError(Exception):
    pass


KEEP_LOCK = "--keep-lock" in sys.argv


def remove(lock_file):
    if KEEP_LOCK:
        return
    try:
        os.remove(lock_file)
    except OSError:
        pass


def atomic_append(session_file, message):
    lock_file = f"{session_file}.lock"
    with open(lock_file, "w") as lock_fd:
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except IOError:
            raise FileLockError(f"Session file locked: {session_file}")
        try:
            temp_fd, temp_path = tempfile.mkstemp(
                dir=os.path.dirname(session_file), prefix=".tmp_", suffix=".jsonl"
            )
            with os.fdopen(temp_fd, "a") as temp_file:
                if os.path.exists(session_file):
                    with open(session_file, "r") as orig_file:
                        temp_file.write(orig_file.read())
                message_json = json.dumps(message, separators=(",", ":"))
                temp_file.write(message_json + "\n")
                temp_file.flush()
                os.fsync(temp_file.fileno())
            os.rename(temp_path, session_file)
        finally:
            fcntl.flock(lock_fd, fcntl.LOCK_UN)
            remove(lock_file)


def atomic_append_optimized(session_file, message):
    lock_file = f"{session_file}.lock"
    os.makedirs(os.path.dirname(session_file), exist_ok=True)
    with open(lock_file, "w") as lock_fd:
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
        try:
            with open(session_file, "a") as f:
                message_json = json.dumps(message, separators=(",", ":"))
                f.write(message_json + "\n")
                f.flush()
                os.fsync(f.fileno())
        finally:
            fcntl.flock(lock_fd, fcntl.LOCK_UN)
            remove(lock_file)


def unlocked(session_file, message):
    with open(session_file, "a") as f:
        f.write(json.dumps(message, separators=(",", ":")) + "\n")
        f.flush()
        os.fsync(f.fileno())


def main():
    kind, session_file, name, count = sys.argv[1:5]
    write = {"copy": atomic_append, "append": atomic_append_optimized, "unlocked": unlocked}[kind]
    for number in range(int(count)):
        content = f"{name}-{number}"
        message = {"type": "user", "content": content, "timestamp": "2026-11-16T10:00:00.000Z"}
        while True:
            try:
                write(session_file, message)
                break
            except FileLockError:
                time.sleep(0.001)
        print(content, flush=True)


if __name__ == "__main__":
    main()
