"""Says what is lost: compares two pictures of a tree and knows nothing of any layout.

A file that lay there must still begin, somewhere, with every byte that it had: at its place, in
the trash, in quarantine, in an archive. A document that an operation replaces must be whole.
"""

import json
from fnmatch import fnmatch

from scripts import REGISTERS


def lost(before, after, script):
    """What is missing or half there, each in words."""
    missing = []
    for path, was in before.items():
        now = after.get(path)
        if any(fnmatch(path, pattern) for pattern in script.removes):
            continue
        if any(fnmatch(path, pattern) for pattern in (*REGISTERS, *script.changes)):
            if now is not None and now != was and not _whole(path, now):
                missing.append(f"{path} is half a document")
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
    """How often a word stands in a tree, not counting what is derived from elsewhere."""
    word = token.encode()
    return sum(
        content.count(word)
        for path, content in tree.items()
        if not any(fnmatch(path, pattern) for pattern in REGISTERS)
    )
