"""Finds lost data by comparing two snapshots of a tree, without knowledge of any layout.

The bytes of every earlier file must still be the prefix of some file: at its path, in the undo
vault or in an archive. A document that an operation replaces must be complete, and a table in which it
changes rows has no fewer of them.
"""

import json
from fnmatch import fnmatch

from scripts import SESSION_LISTS


def lost(before, after, script):
    """Returns a description of each file that is missing or incomplete."""
    missing = []
    for path, was in before.items():
        now = after.get(path)
        if any(fnmatch(path, pattern) for pattern in script.removes):
            continue
        if any(fnmatch(path, pattern) for pattern in (*SESSION_LISTS, *script.changes)):
            if now is not None and now != was and not _whole(path, now):
                missing.append(f"{path} is half a document")
            elif now is not None and ".db/" in path and now.count(b"\n") < was.count(b"\n"):
                missing.append(f"rows of {path} are gone")
            elif now is None and not _stands(was, after):
                missing.append(f"{path} is gone")
        elif now is not None and now.startswith(was):
            continue
        elif not _stands(was, after):
            missing.append(f"{path} is {'gone' if now is None else 'changed'}")
    return missing


def _stands(was, after):
    return not was or any(now.startswith(was) for now in after.values())


def _whole(path, content):
    if not path.endswith(".json"):
        return True
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def count(tree, token):
    """Counts a word in a tree, without files that are derived from others."""
    word = token.encode()
    return sum(
        content.count(word)
        for path, content in tree.items()
        if not any(fnmatch(path, pattern) for pattern in SESSION_LISTS)
    )
