"""The `SessionStore` of the package claude-agent-sdk: a copy of every transcript in a root of Claude Code.

    from annals_store.adapters.claude_agent_sdk import SessionStore
    from claude_agent_sdk import ClaudeAgentOptions

    options = ClaudeAgentOptions(session_store=SessionStore("/backup/claude", state="/backup/annals"))

The lines are appended as they are, so every program that reads Claude Code's logs reads the copy too. An entry
whose `uuid` was appended before is skipped. Deleted sessions go to the trash.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import claude_agent_sdk as sdk

from .. import Mirror, Root, Store

_T = TypeVar("_T")

#: Logs that are kept open.
_OPEN_LOGS = 64


class SessionStore(sdk.SessionStore):
    """Keeps transcripts in the root `path`, and summaries and the trash in the directory `state`."""

    def __init__(self, path: str | os.PathLike[str], *, state: str | os.PathLike[str]) -> None:
        self._store = Store(Root("claude-code", path), state=state)
        self._summaries = Path(state) / "claude-agent-sdk"
        self._mirrors: OrderedDict[tuple[str, str, str | None], Mirror] = OrderedDict()
        # Appends are carried out in the order of their calls.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="annals-session-store")

    async def append(self, key: sdk.SessionKey, entries: list[sdk.SessionStoreEntry]) -> None:
        await self._run(lambda: self._append(key, entries))

    async def load(self, key: sdk.SessionKey) -> list[sdk.SessionStoreEntry] | None:
        lines = await self._run(lambda: self._mirror(key).load())
        return None if lines is None else [json.loads(line) for line in lines]

    async def list_sessions(self, project_key: str) -> list[sdk.SessionStoreListEntry]:
        return await self._run(lambda: list(self._sessions(project_key)))

    async def list_session_summaries(self, project_key: str) -> list[sdk.SessionSummaryEntry]:
        return await self._run(lambda: list(self._read_summaries(project_key)))

    async def delete(self, key: sdk.SessionKey) -> None:
        await self._run(lambda: self._delete(key))

    async def list_subkeys(self, key: sdk.SessionListSubkeysKey) -> list[str]:
        main: sdk.SessionKey = {"project_key": key["project_key"], "session_id": key["session_id"]}
        return await self._run(lambda: self._mirror(main).subs())

    async def _run(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _mirror(self, key: sdk.SessionKey) -> Mirror:
        name = (key["project_key"], key["session_id"], key.get("subpath"))
        mirror = self._mirrors.pop(name, None) or self._store.mirror(*name)
        self._mirrors[name] = mirror
        if len(self._mirrors) > _OPEN_LOGS:
            self._mirrors.popitem(last=False)
        return mirror

    def _append(self, key: sdk.SessionKey, entries: list[Any]) -> None:
        mirror = self._mirror(key)
        if key.get("subpath"):
            mirror.append(entries)
            return
        path = self._summary_path(key["project_key"], key["session_id"])
        with _locked(path):
            held = _read_json(path)
            summary = held.get("summary")
            if held.get("bytes", 0) != _size(mirror.path):
                # Somebody else appended, or an append was interrupted before its summary was written.
                earlier = [json.loads(line) for line in mirror.load() or []]
                summary = sdk.fold_session_summary(None, key, earlier) if earlier else None
            if not mirror.append(entries):
                return
            summary = sdk.fold_session_summary(summary, key, entries)
            summary["mtime"] = _mtime(mirror.path)
            _write_json(path, {"summary": summary, "bytes": _size(mirror.path)})

    def _sessions(self, project_key: str) -> Iterator[sdk.SessionStoreListEntry]:
        folder = os.path.dirname(self._store.mirror(project_key, "session").path)
        for row in self._store.sessions():
            # A session may also be listed because only logs of its sub-agents exist.
            if row["file"] == os.path.join(folder, row["id"] + ".jsonl") and os.path.exists(row["file"]):
                yield {"session_id": row["id"], "mtime": _mtime(row["file"])}

    def _read_summaries(self, project_key: str) -> Iterator[sdk.SessionSummaryEntry]:
        for path in self._summary_path(project_key, "").parent.glob("*.json"):
            summary = _read_json(path).get("summary")
            if summary is not None:
                yield summary

    def _delete(self, key: sdk.SessionKey) -> None:
        for name in list(self._mirrors):
            if name[:2] == (key["project_key"], key["session_id"]):
                del self._mirrors[name]
        self._mirror(key).delete()
        if not key.get("subpath"):
            self._summary_path(key["project_key"], key["session_id"]).unlink(missing_ok=True)

    def _summary_path(self, project_key: str, session_id: str) -> Path:
        return self._summaries / f"p{quote(project_key, safe='')}" / f"{quote(session_id, safe='')}.json"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Excludes other processes that write the same summary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read_json(path: Path) -> dict[str, Any]:
    try:
        held = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}


def _write_json(path: Path, value: dict[str, Any]) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value))
    new.replace(path)


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0


def _mtime(path: str) -> int:
    return os.stat(path).st_mtime_ns // 1_000_000
