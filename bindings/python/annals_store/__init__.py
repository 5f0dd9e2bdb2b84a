"""Reads and writes the logs of coding agents in place, and never loses a record.

    from annals_store import Store

    store = Store.discover()
    with store.begin("/home/me/app") as writer:
        writer.user("Why does the build fail?")
"""

from ._annals import Follower, Mirror, Root, Session, Store, Writer
from .types import AnnalsError, AnnalsWarning

__all__ = ["AnnalsError", "AnnalsWarning", "Follower", "Mirror", "Root", "Session", "Store", "Writer"]
