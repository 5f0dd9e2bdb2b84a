"""Prints what the Python package knows of roots, as the example `rows` of the library does.

    rows.py STATE_DIR LAYOUT:PATH...
"""
import json
import sys
import warnings

from annals_store import AnnalsError, Store


def session(store, path):
    try:
        open = store.session(path)
        return {
            "info": open.info,
            "conversations": open.conversations,
            "flaws": open.flaws,
            "messages": open.messages(),
            "agents": open.agents,
            "stats": open.stats("UTC"),
            "todos": open.todos(),
            "files": open.files(),
            "cost": None if open.cost() is None else format(open.cost(), "f"),
            "context": open.context(),
        }
    except AnnalsError as error:
        return {"error": error.kind}


def main():
    warnings.simplefilter("ignore")
    state, *roots = sys.argv[1:]
    for root in roots:
        store = Store(root, state=state, index=False, zone="UTC")
        sessions = store.sessions()
        print(json.dumps({
            "root": root,
            "projects": store.projects(),
            "search": store.search("the", context=1),
            "cost": store.cost(["model", "day"]),
            "check": store.check(),
            "sessions": sessions,
            "opened": {row["file"]: session(store, row["file"]) for row in sessions},
        }))


main()
