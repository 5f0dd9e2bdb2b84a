"""The `StorageProvider` of the package agentpool: its messages as sessions of Claude Code.

    from annals_store.adapters.agentpool import AnnalsStorageProvider

    provider = AnnalsStorageProvider("~/.claude", cwd="/home/me/app")

Messages are appended to the logs of a root, so Claude Code resumes what agentpool wrote, and agentpool reads what
Claude Code wrote. What a log has no place for is in the folder `agentpool` of the state directory: names of agents,
metadata, commands, projects. Nothing is cut from a log: deleted sessions go to the trash, and `delete_session_messages`
begins a new context after a compaction.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import quote, unquote

from agentpool.messaging import ChatMessage
from agentpool.sessions.models import ProjectData, SessionData
from agentpool.utils.time_utils import get_now, parse_time_period
from agentpool_config.session import SessionQuery
from agentpool_config.storage import BaseStorageProviderConfig
from agentpool_storage.base import StorageProvider
from agentpool_storage.models import ConversationData, QueryFilters, StatsFilters
from pydantic import Field
from pydantic_ai import RunUsage

from .. import AnnalsError, Root, Store, Writer
from ..types import SessionInfo
from . import _agentpool_messages as conversion

_T = TypeVar("_T")
_Message: TypeAlias = ChatMessage[Any]

#: Writers that are kept open.
_OPEN_WRITERS = 64

#: Text in place of the messages before a compaction.
_CLEARED = "The messages before this point were replaced."


class AnnalsStorageConfig(BaseStorageProviderConfig):
    """Configuration of the provider, for `StorageConfig.providers`."""

    type: Literal["annals"] = Field("annals", init=False)
    path: str = "~/.claude"
    state: str | None = None
    cwd: str | None = None
    durability: Literal["disk", "os"] = "disk"

    def get_provider(self) -> StorageProvider:
        return AnnalsStorageProvider(config=self)


class _Session:
    """A session that is open for writing, with the entries of its messages."""

    def __init__(self, writer: Writer, entries: dict[str, str], used: set[str]) -> None:
        self.writer = writer
        self.entries = entries
        self.used = used


class AnnalsStorageProvider(StorageProvider):
    """Keeps messages in the root `path` of Claude Code. New sessions are of the project `cwd`."""

    can_load_history = True

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        state: str | os.PathLike[str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        config: AnnalsStorageConfig | None = None,
    ) -> None:
        config = config or AnnalsStorageConfig()
        super().__init__(config)
        state = state or config.state or _default_state()
        self._store = Store(Root("claude-code", os.path.expanduser(path or config.path)), state=state)
        self._cwd = os.fspath(cwd or config.cwd or os.getcwd())
        self._durability = config.durability
        self._files = _Files(Path(state) / "agentpool")
        self._open: OrderedDict[str, _Session] = OrderedDict()
        # Calls are carried out in their order.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="annals-agentpool")

    def cleanup(self) -> None:
        """Closes the logs. Further calls open them again."""
        self._executor.submit(self._close_all).result()

    async def _run(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    # Messages

    async def log_message(self, *, message: _Message) -> None:
        await self._run(lambda: self._log(message))

    async def filter_messages(self, query: SessionQuery) -> list[_Message]:
        return await self._run(lambda: self._filtered(query))

    async def get_session_messages(self, session_id: str, *, include_ancestors: bool = False) -> list[_Message]:
        def read() -> list[_Message]:
            messages = self._messages(session_id)
            if include_ancestors and messages and messages[0].parent_id:
                return self._ancestry(messages[0].parent_id, None) + messages
            return messages

        return await self._run(read)

    async def get_message(self, message_id: str, *, session_id: str | None = None) -> _Message | None:
        return await self._run(lambda: self._message(message_id, session_id))

    async def get_message_ancestry(self, message_id: str, *, session_id: str | None = None) -> list[_Message]:
        return await self._run(lambda: self._ancestry(message_id, session_id))

    async def delete_session_messages(self, session_id: str) -> int:
        return await self._run(lambda: self._clear(session_id))

    # Sessions

    async def log_session(
        self,
        *,
        session_id: str,
        node_name: str,
        start_time: datetime | None = None,
        model: str | None = None,
        agent_type: str | None = None,
    ) -> None:
        def log() -> None:
            with self._files.session(session_id) as facts:
                if not facts:
                    created = (start_time or get_now()).isoformat()
                    facts.update(agent_name=node_name, created_at=created, agent_type=agent_type, model=model)

        await self._run(log)

    async def update_session_title(self, session_id: str, title: str) -> None:
        def update() -> None:
            with self._files.session(session_id) as facts:
                if not facts and session_id not in self._rows():
                    return
                facts["title"] = title
            if session_id in self._rows():
                self._session(session_id).writer.retitle(title)

        await self._run(update)

    async def get_session_title(self, session_id: str) -> str | None:
        return await self._run(lambda: self._title(session_id, self._rows().get(session_id)))

    async def fork_conversation(
        self,
        *,
        source_session_id: str,
        new_session_id: str,
        fork_from_message_id: str | None = None,
        new_agent_name: str | None = None,
    ) -> str | None:
        return await self._run(
            lambda: self._fork(source_session_id, new_session_id, fork_from_message_id, new_agent_name)
        )

    async def get_sessions(self, filters: QueryFilters) -> list[ConversationData]:
        return await self._run(lambda: list(self._conversations(filters)))

    async def get_filtered_conversations(
        self,
        agent_name: str | None = None,
        period: str | None = None,
        since: datetime | None = None,
        query: str | None = None,
        model: str | None = None,
        limit: int | None = None,
        *,
        compact: bool = False,
        include_tokens: bool = False,
    ) -> list[ConversationData]:
        if period:
            since = get_now() - parse_time_period(period)
        filters = QueryFilters(agent_name=agent_name, since=since, query=query, model=model, limit=limit)
        found = await self.get_sessions(filters)
        for conversation in found:
            if compact and len(conversation["messages"]) > 1:
                conversation["messages"] = [conversation["messages"][0], conversation["messages"][-1]]
            if not include_tokens:
                conversation["token_usage"] = None
        return found

    async def get_session_stats(self, filters: StatsFilters) -> dict[str, dict[str, Any]]:
        def count() -> dict[str, dict[str, Any]]:
            counted = [
                (message.model_name, message.name, message.timestamp, message.usage)
                for session_id in self._session_ids()
                for message in self._messages(session_id)
                if message.timestamp > filters.cutoff
                and (filters.agent_name is None or message.name == filters.agent_name)
            ]
            return self.aggregate_stats(counted, filters.group_by)

        return await self._run(count)

    async def get_session_counts(self, *, agent_name: str | None = None) -> tuple[int, int]:
        return await self._run(lambda: self._counts(agent_name))

    async def reset(self, *, agent_name: str | None = None, hard: bool = False) -> tuple[int, int]:
        """Moves sessions to the trash; `hard` also removes commands and projects."""
        if hard and agent_name:
            raise ValueError("Hard reset cannot be used with agent_name")

        def reset() -> tuple[int, int]:
            counts = self._counts(agent_name)
            for session_id in self._session_ids(agent_name):
                self._delete(session_id)
            if not agent_name:
                self._files.commands.unlink(missing_ok=True)
            if hard:
                for path in self._files.projects():
                    path.unlink()
            return counts

        return await self._run(reset)

    async def save_session(self, data: SessionData) -> None:
        def save() -> None:
            with self._files.session(data.session_id) as facts:
                facts.update(data.model_dump(mode="json", exclude={"session_id"}))
                if data.title is not None:
                    facts["title"] = data.title

        await self._run(save)

    async def load_session(self, session_id: str) -> SessionData | None:
        def load() -> SessionData | None:
            facts = self._files.read(session_id)
            row = self._rows().get(session_id)
            if not facts and row is None:
                return None
            known = {name: facts[name] for name in SessionData.model_fields if name in facts}
            if row is not None:
                times = {"created_at": row["started"], "last_active": row["updated"], "cwd": row["project"]}
                known = {name: value for name, value in times.items() if value is not None} | known
            if "created_at" in known:
                known.setdefault("last_active", known["created_at"])
            known.setdefault("agent_name", conversion.CLAUDE)
            return SessionData(session_id=session_id, **known)

        return await self._run(load)

    async def delete_session(self, session_id: str) -> bool:
        return await self._run(lambda: self._delete(session_id))

    async def list_session_ids(self, pool_id: str | None = None, agent_name: str | None = None) -> list[str]:
        return await self._run(lambda: list(self._session_ids(agent_name, pool_id)))

    async def update_sdk_session_id(self, session_id: str, sdk_session_id: str) -> None:
        def update() -> None:
            with self._files.session(session_id) as facts:
                if facts:
                    facts["sdk_session_id"] = sdk_session_id

        await self._run(update)

    # Commands

    async def log_command(
        self,
        *,
        agent_name: str,
        session_id: str,
        command: str,
        context_type: type | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        kind = context_type.__name__ if context_type else None
        row = {"agent_name": agent_name, "session_id": session_id, "command": command,
               "timestamp": get_now().isoformat(), "context_type": kind, "metadata": metadata or {}}
        await self._run(lambda: _append_line(self._files.commands, row))

    async def get_commands(
        self, agent_name: str, session_id: str, *, limit: int | None = None, current_session_only: bool = False
    ) -> list[str]:
        def read() -> list[str]:
            name, wanted = ("session_id", session_id) if current_session_only else ("agent_name", agent_name)
            found = [row["command"] for row in _read_lines(self._files.commands) if row[name] == wanted][::-1]
            return found[:limit] if limit else found

        return await self._run(read)

    # Projects

    async def save_project(self, project: ProjectData) -> None:
        await self._run(lambda: self._save_project(project))

    async def get_project(self, project_id: str) -> ProjectData | None:
        return await self._first_project(lambda project: project.project_id == project_id)

    async def get_project_by_worktree(self, worktree: str) -> ProjectData | None:
        return await self._first_project(lambda project: project.worktree == worktree)

    async def get_project_by_name(self, name: str) -> ProjectData | None:
        return await self._first_project(lambda project: project.name == name)

    async def list_projects(self, limit: int | None = None) -> list[ProjectData]:
        return (await self._run(self._all_projects))[:limit]

    async def delete_project(self, project_id: str) -> bool:
        def delete() -> bool:
            path = self._files.project(project_id)
            exists = path.exists()
            path.unlink(missing_ok=True)
            return exists

        return await self._run(delete)

    async def touch_project(self, project_id: str) -> None:
        project = await self.get_project(project_id)
        if project is not None:
            await self.save_project(project.touch())

    # What runs in the thread

    def _rows(self) -> dict[str, SessionInfo]:
        return {row["id"]: row for row in reversed(self._store.sessions()) if row["state"] != "deleted"}

    def _session(self, session_id: str) -> _Session:
        """Returns an open session: resumed, or begun if it has no log."""
        session = self._open.pop(session_id, None)
        if session is None:
            row = self._rows().get(session_id)
            facts = self._files.read(session_id)
            entries: dict[str, str] = {}
            used: set[str] = set()
            if row is not None and os.path.exists(row["file"]):
                read = self._store.session(row["file"]).messages(all_branches=True)
                used = {entry["id"] for entry in read if entry["id"]}
                visible = self._visible(session_id, read, facts)
                entries = {message.message_id: group[-1]["id"] or "" for message, group in visible}
                writer = self._store.resume(row["file"], live=True, durability=self._durability)
            else:
                cwd = facts.get("cwd") or self._cwd
                writer = self._store.begin(cwd, id=session_id, title=facts.get("title"), durability=self._durability)
            session = _Session(writer, entries, used)
        self._open[session_id] = session
        if len(self._open) > _OPEN_WRITERS:
            self._open.popitem(last=False)[1].writer.close()
        return session

    def _close(self, session_id: str) -> None:
        session = self._open.pop(session_id, None)
        if session is not None:
            session.writer.close()

    def _close_all(self) -> None:
        for session_id in list(self._open):
            self._close(session_id)

    def _log(self, message: _Message) -> None:
        session_id = message.session_id or ""
        if not session_id:
            raise ValueError("the message has no session_id")
        session = self._session(session_id)
        if message.message_id in session.entries:
            raise ValueError(f"Duplicate message ID: {message.message_id}")
        # A message that was logged before a compaction may be logged again.
        entry_id = str(uuid.uuid4()) if message.message_id in session.used else message.message_id
        parent = session.entries.get(message.parent_id or "")
        try:
            written = session.writer.append(*conversion.drafts(message, entry_id, parent))
        except AnnalsError:
            # Another process may have written, or the log was moved.
            self._close(session_id)
            raise
        ids = [entry["id"] for entry in written if entry["id"]]
        extra: dict[str, Any] = {"id": message.message_id}
        plain = conversion.chat_message(written, session_id, extra)
        extra |= {"entries": ids, "members": conversion.extras(message, plain)}
        _append_line(self._files.messages(session_id), extra)
        session.entries[message.message_id] = ids[-1]
        session.used.update(ids)

    def _visible(
        self, session_id: str, entries: list[Any], facts: dict[str, Any]
    ) -> Iterator[tuple[_Message, list[Any]]]:
        """Yields the messages since the last compaction that this provider made, with their entries."""
        begin = facts.get("begins_after")
        at = next((at for at, entry in enumerate(entries) if entry["id"] == begin), -1) if begin else -1
        known = {row["entries"][-1]: row for row in _read_lines(self._files.messages(session_id))}
        logged = {last: row["entries"] for last, row in known.items()}
        for group in conversion.group(entries[at + 1 :], logged):
            yield conversion.chat_message(group, session_id, known.get(group[-1]["id"], {})), group

    def _messages(self, session_id: str, row: SessionInfo | None = None) -> list[_Message]:
        row = row or self._rows().get(session_id)
        if row is None or not os.path.exists(row["file"]):
            return []
        entries = self._store.session(row["file"]).messages(all_branches=True)
        facts = self._files.read(session_id)
        found = [message for message, _ in self._visible(session_id, entries, facts)]
        return sorted(found, key=lambda message: message.timestamp)

    def _all_messages(self, session_id: str | None) -> Iterator[_Message]:
        rows = self._rows()
        for one in [session_id] if session_id else self._session_ids():
            yield from self._messages(one, rows.get(one))

    def _message(self, message_id: str, session_id: str | None) -> _Message | None:
        places = [session_id, None] if session_id else [None]
        found = (message for place in places for message in self._all_messages(place))
        return next((message for message in found if message.message_id == message_id), None)

    def _ancestry(self, message_id: str, session_id: str | None) -> list[_Message]:
        known: dict[str, _Message] = {}
        if session_id:
            known = {message.message_id: message for message in self._messages(session_id)}
        has_all = False
        path: list[_Message] = []
        current: str | None = message_id
        while current:
            if current not in known and not has_all:
                # The parent of a fork is in another session.
                known = {message.message_id: message for message in self._all_messages(None)} | known
                has_all = True
            message = known.get(current)
            if message is None or any(message is one for one in path):
                break
            path.append(message)
            current = message.parent_id
        return path[::-1]

    def _filtered(self, query: SessionQuery) -> list[_Message]:
        cutoff = query.get_time_cutoff()
        until = datetime.fromisoformat(query.until) if query.until else None
        found = []
        for message in self._all_messages(query.name):
            if (
                (query.agents and message.name not in query.agents)
                or (cutoff and message.timestamp < cutoff)
                or (until and message.timestamp > until)
                or (query.contains and query.contains not in conversion.text_of(message.content))
                or (query.roles and message.role not in query.roles)
            ):
                continue
            found.append(message)
            if query.limit and len(found) >= query.limit:
                break
        return found

    def _title(self, session_id: str, row: SessionInfo | None) -> str | None:
        facts = self._files.read(session_id)
        if facts or row is None:
            return facts.get("title")
        return row["title"]

    def _session_ids(self, agent_name: str | None = None, pool_id: str | None = None) -> list[str]:
        found = dict.fromkeys(self._files.session_ids())
        found.update(dict.fromkeys(self._rows()))
        if agent_name is None and pool_id is None:
            return list(found)

        def matches(facts: dict[str, Any]) -> bool:
            agent = facts.get("agent_name", conversion.CLAUDE)
            return agent_name in (None, agent) and pool_id in (None, facts.get("pool_id"))

        return [session_id for session_id in found if matches(self._files.read(session_id))]

    def _conversations(self, filters: QueryFilters) -> Iterator[ConversationData]:
        rows = self._rows()
        count = 0
        for session_id in self._session_ids(filters.agent_name):
            facts, row = self._files.read(session_id), rows.get(session_id)
            if filters.cwd and (facts.get("cwd") or (row["project"] if row else self._cwd)) != filters.cwd:
                continue
            begun = facts.get("created_at") or (row["started"] if row else None)
            start = datetime.fromisoformat(begun.replace("Z", "+00:00")) if begun else get_now()
            if filters.since and start < filters.since:
                continue
            messages = [
                message
                for message in self._messages(session_id, row)
                if (not filters.query or filters.query in conversion.text_of(message.content))
                and (not filters.model or message.model_name == filters.model)
            ]
            if filters.query and not messages:
                continue
            agent = facts.get("agent_name", conversion.CLAUDE)
            yield ConversationData(
                id=session_id,
                agent=agent,
                title=self._title(session_id, row),
                start_time=start.isoformat(),
                messages=messages,
                token_usage=sum((message.usage for message in messages), RunUsage()),
            )
            count += 1
            if filters.limit and count >= filters.limit:
                return

    def _counts(self, agent_name: str | None) -> tuple[int, int]:
        rows = self._rows()
        ids = self._session_ids(agent_name)
        return len(ids), sum(len(self._messages(session_id, rows.get(session_id))) for session_id in ids)

    def _fork(self, source: str, new: str, at: str | None, agent: str | None) -> str | None:
        facts, row = self._files.read(source), self._rows().get(source)
        if not facts and row is None:
            raise ValueError(f"Source conversation not found: {source}")
        point, entry = at, None
        if row is not None and os.path.exists(row["file"]):
            session = self._store.session(row["file"])
            visible = list(self._visible(source, session.messages(all_branches=True), facts))
            ends = {message.message_id: group[-1]["id"] for message, group in visible}
            if at is None and visible:
                point = max((message for message, _ in visible), key=lambda message: message.timestamp).message_id
            entry = ends.get(point or "")
        if at is not None and entry is None:
            raise ValueError(f"Message {at} not found in conversation")
        title = f"{facts['title']} (fork)" if facts.get("title") else None
        with self._files.session(new) as forked:
            forked.update(agent_name=agent or facts.get("agent_name", conversion.CLAUDE), parent_id=source,
                          created_at=get_now().isoformat(), cwd=facts.get("cwd") or (row["project"] if row else None))
            if title:
                forked["title"] = title
            if row is not None and entry is not None:
                # The log has the whole history, so that it can be resumed; messages of the fork follow it.
                self._store.fork(row["file"], entry, title=title, to=new)
                copied = self._store.session(self._rows()[new]["file"]).messages(all_branches=True)
                forked["begins_after"] = copied[-1]["id"]
        return point

    def _clear(self, session_id: str) -> int:
        count = len(self._messages(session_id))
        if count:
            session = self._session(session_id)
            written = session.writer.compact(_CLEARED)
            with self._files.session(session_id) as facts:
                facts.setdefault("agent_name", conversion.CLAUDE)
                facts["begins_after"] = written[-1]["id"]
            session.entries.clear()
        return count

    def _delete(self, session_id: str) -> bool:
        self._close(session_id)
        row = self._rows().get(session_id)
        if row is not None:
            self._store.delete(row["file"])
        return self._files.remove(session_id) or row is not None

    def _save_project(self, project: ProjectData) -> None:
        path = self._files.project(project.project_id)
        _write_json(path, project.model_dump(mode="json"))

    def _all_projects(self) -> list[ProjectData]:
        found = [ProjectData(**_read_json(path)) for path in self._files.projects()]
        return sorted(found, key=lambda project: project.last_active, reverse=True)

    async def _first_project(self, matches: Callable[[ProjectData], bool]) -> ProjectData | None:
        return next(filter(matches, await self._run(self._all_projects)), None)


class _Files:
    """What logs have no place for: facts of sessions, members of messages, commands, projects."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.commands = folder / "commands.jsonl"

    def _path(self, session_id: str) -> Path:
        return self._folder / "sessions" / f"{quote(session_id, safe='')}.json"

    def messages(self, session_id: str) -> Path:
        return self._folder / "messages" / f"{quote(session_id, safe='')}.jsonl"

    def read(self, session_id: str) -> dict[str, Any]:
        return _read_json(self._path(session_id))

    @contextmanager
    def session(self, session_id: str) -> Iterator[dict[str, Any]]:
        """Yields the facts of a session, and writes what changes. Excludes other processes."""
        path = self._path(session_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.with_suffix(".lock"), "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = _read_json(path)
            facts = dict(before)
            yield facts
            if facts != before:
                _write_json(path, facts)

    def session_ids(self) -> list[str]:
        return [unquote(path.stem) for path in sorted((self._folder / "sessions").glob("*.json"))]

    def remove(self, session_id: str) -> bool:
        """Removes the facts. Members of messages stay, for sessions that come back from the trash."""
        path = self._path(session_id)
        exists = path.exists()
        path.unlink(missing_ok=True)
        path.with_suffix(".lock").unlink(missing_ok=True)
        return exists

    def project(self, project_id: str) -> Path:
        return self._folder / "projects" / f"{quote(project_id, safe='')}.json"

    def projects(self) -> list[Path]:
        return sorted((self._folder / "projects").glob("*.json"))


def _default_state() -> str:
    state = os.environ.get("ANNALS_STATE_DIR")
    common = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return state or os.path.join(common, "annals")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        held = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with open(new, "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _append_line(path: Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A newline before the record ends a line that a crash left unfinished.
    with open(path, "ab") as file:
        torn = file.tell() > 0 and not _ends_with_newline(path)
        file.write((b"\n" if torn else b"") + json.dumps(value).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _ends_with_newline(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        found.append(row)
    return found
