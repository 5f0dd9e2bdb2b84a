"""Appends lines to a log, as programs do that take no lock: one write for each line. Prints each text once it is
written. `copy` is wrong: it renames a copy of the log with the line over it.

    line_writer.py append|copy LOG NAME COUNT
"""

import json
import os
import shutil
import sys
import time
import uuid


def record(text):
    """Returns a line with the ids that logs of any layout have, of a type that their programs do not know."""
    one = str(uuid.uuid4())
    ids = {"id": one[:8], "uuid": one, "parentId": None, "parentUuid": None}
    line = {"type": "gate", **ids, "timestamp": "2026-11-15T12:00:00.000Z", "payload": {}, "data": {}, "text": text}
    return json.dumps(line).encode() + b"\n"


def append(path, line):
    log = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(log, line)
    os.close(log)


def copy(path, line):
    aside = f"{path}.{os.getpid()}"
    shutil.copyfile(path, aside)
    append(aside, line)
    os.rename(aside, path)


def main():
    kind, path, name, count = sys.argv[1:]
    for number in range(int(count)):
        text = f"{name}-{number}-end"
        {"append": append, "copy": copy}[kind](path, record(text))
        print(text, flush=True)
        # Hundreds of lines, so that annals also has its turns.
        time.sleep(0.003)


if __name__ == "__main__":
    main()
