#!/usr/bin/env python3
"""Records which messages the real clients resume from every trap, as expectations for tree tests.

    record_leaves.py            ask both clients about every trap and write client-leaves.json
    record_leaves.py NAME...    only these traps; the others keep their records

The file fixtures/client-leaves.json maps trap -> session -> client -> {outcome, leaf, messages}.
`outcome` is "resumed", "refused" or "hung", `leaf` is the uuid of the entry from which the client
continued, `messages` is the number of messages it sent. Downloads the clients once.
"""
import concurrent.futures
import json
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "resume-oracle"))
import resume_oracle  # noqa: E402

FIXTURES = HERE.parent.parent / "fixtures"
RECORD = FIXTURES / "client-leaves.json"
CLIENTS = ["2.1.325", "2.0.77"]
TIMEOUT = 30


def ask(task):
    """Runs one client on one log."""
    trap, log, client = task
    try:
        answer = resume_oracle.ask(log, client=client, session_id=log.stem, timeout=TIMEOUT)
    except (KeyError, TypeError, ValueError) as error:
        raise SystemExit("%s with %s: %r" % (trap, client, error)) from error
    outcome = "hung" if answer["hung"] else "refused" if answer["messages"] is None else "resumed"
    return {"outcome": outcome, "leaf": answer["leaf"], "messages": len(answer["messages"] or [])}


def main():
    """Runs the clients, and writes the record in a stable order."""
    names = sys.argv[1:]
    if any(name.startswith("-") for name in names):
        print(__doc__)
        return 0 if names[0] in ("-h", "--help") else 2
    record = json.loads(RECORD.read_text(encoding="utf-8")) if names and RECORD.exists() else {}
    roots = [folder for folder in sorted((FIXTURES / "claude-code").iterdir())
             if folder.is_dir() and not folder.name[0].isdigit() and (not names or folder.name in names)]
    tasks = [(root.name, log, client) for root in roots for log in sorted(root.glob("projects/*/*.jsonl"))
             if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", log.stem) for client in CLIENTS]
    for client in CLIENTS:
        resume_oracle.installed_client(client)
    for root in roots:
        record[root.name] = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for (trap, log, client), answer in zip(tasks, pool.map(ask, tasks)):
            key = log.stem if log.stem not in record[trap] or client not in record[trap][log.stem] \
                else "%s/%s" % (log.parent.name, log.stem)
            record[trap].setdefault(key, {})[client] = answer
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print("%d answers in %s" % (len(tasks), RECORD))
    return 0


if __name__ == "__main__":
    sys.exit(main())
