"""Rows as they are read, and what is given to a writer. Their keys are those of `annals ... --json`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict, Union

PathLike = Union[str, "os.PathLike[str]"]
#: RFC 3339, a day, or a span such as "7d"; a datetime without a zone is local time
Time = Union[str, datetime]
Layout = str
Durability = Literal["disk", "os"]
Role = Literal["user", "assistant", "system"]
Order = Literal["relevance", "newest", "oldest"]
Kind = Literal["not_found", "ambiguous", "refused", "busy", "poisoned", "io", "bad_input"]
#: as the Messages API spells it when written; with a "kind" as in --json when read
Block = dict[str, Any]


class AnnalsError(Exception):
    """A request that was not carried out."""

    kind: Kind
    path: str | None
    #: of an ambiguous id
    candidates: list[str]

    def __init__(self, message: str, kind: Kind = "refused", path: str | None = None, candidates: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.path = path
        self.candidates = list(candidates)


class AnnalsWarning(UserWarning):
    """Something that could not be read; what could be read was returned."""


class Usage(TypedDict, total=False):
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    web_searches: int


class ApiMessage(TypedDict):
    """A message as the Messages API spells it."""

    role: Literal["user", "assistant"]
    content: list[Block]


class Draft(TypedDict, total=False):
    """A message to append, as `annals append` reads it. Layouts may have further members."""

    role: Role
    content: str | list[Block]
    model: str | None
    usage: Usage | dict[str, Any] | None
    id: str | None
    parent: str | None
    timestamp: Time | None
    stop_reason: str | None
    message_id: str | None
    request_id: str | None


class Todo(TypedDict, total=False):
    content: str
    status: Literal["pending", "in_progress", "completed", "other"]
    activeForm: str
    priority: str
    id: str


class _EntryMembers(TypedDict, total=False):
    session_id: str
    channel: str
    human: bool
    response: str
    request: str
    stop_reason: str
    operation: str
    subtype: str
    leaf: str
    source: str
    author: str
    todos: list[Todo]
    message: str
    backups: list[dict[str, Any]]
    members: dict[str, Any]


class Entry(_EntryMembers):
    id: str | None
    parent: str | None
    time: str | None
    agent: str | None
    kind: str
    role: Role | None
    model: str | None
    blocks: list[Block]
    usage: Usage | None
    cost_usd: str | None
    line: int | None
    offset: int


class _SessionAttributes(TypedDict, total=False):
    #: attributes of some layouts
    agent: str | None
    agent_id: str | None
    agent_name: str | None
    channel: str | None
    conversation: str | None
    forked_from: str | None
    format_version: str | None
    git_branch: str | None
    session_id: str | None
    source: str | None
    thread: str | None
    workspace: str | None
    workspace_id: str | None
    workspace_name: str | None
    context: dict[str, Any] | None


class SessionInfo(_SessionAttributes):
    layout: Layout
    root: str
    project: str
    id: str
    file: str
    title: str | None
    tag: str | None
    pinned: bool
    state: Literal["created", "active", "resumed", "expired", "deleted"]
    started: str | None
    updated: str | None
    expires: str | None
    archived: bool
    entries: int
    messages: int
    conversations: int
    agents: int
    bytes: int
    flaws: int
    errors: int
    warnings: int
    models: list[str]
    usage: Usage
    cost_usd: str | None
    unpriced: int


class Project(TypedDict):
    layout: Layout
    root: str
    id: str
    path: str
    name: str
    #: whether the path is the name of a folder, because no entry names the directory
    guessed: bool
    sessions: int
    bytes: int
    updated: str | None
    cost_usd: str | None
    unpriced: int


class Conversation(TypedDict):
    #: SESSION@LEAF
    id: str
    session: str
    leaf: str
    title: str | None
    branch: str | None
    messages: int
    started: str | None
    updated: str | None
    resumes: bool
    usage: Usage
    cost_usd: str | None
    unpriced: int


class Agent(TypedDict):
    id: str | None
    kind: str | None
    description: str | None
    #: id of the entry with the call
    call: str | None
    messages: int
    cost_usd: str | None


class Flaw(TypedDict):
    kind: str
    line: int
    offset: int
    length: int
    detail: str


class _FoundFlawText(TypedDict, total=False):
    text: str


class FoundFlaw(Flaw, _FoundFlawText):
    """A flaw that a check found."""

    severity: str
    fixable: bool
    advice: str


class _HitContext(TypedDict, total=False):
    before: list[Entry]
    after: list[Entry]


class Hit(_HitContext):
    id: str
    session: str
    title: str | None
    entry: str | None
    layout: Layout
    file: str
    line: int
    offset: int
    agent: str | None
    archived: bool
    role: Role | None
    part: str | None
    tool: str | None
    model: str | None
    time: str | None
    cwd: str | None
    score: float
    snippet: str
    #: byte ranges in the snippet
    matches: list[list[int]]


class Found(TypedDict):
    hits: list[Hit]
    total: int
    sessions: int
    truncated: bool
    #: whether the totals are lower bounds
    at_least: bool


class CostSums(TypedDict):
    requests: int
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    web_searches: int
    cost_usd: str | None
    unpriced: int


class _CostDimensions(TypedDict, total=False):
    #: one of the keys for each dimension that was asked for
    hour: str | None
    day: str | None
    week: str | None
    month: str | None
    block: str | None
    session: str | None
    project: str | None
    model: str | None
    agent: str | None
    agent_id: str | None
    branch: str | None
    git_branch: str | None
    layout: str | None
    title: str | None
    models: list[str | None]
    first: str | None
    last: str | None
    start: str
    end: str
    active: bool
    burn_rate: dict[str, Any]
    projection: dict[str, Any] | None
    remaining_minutes: int | None


class CostRow(CostSums, _CostDimensions):
    key: str


class _CostNotes(TypedDict, total=False):
    overflowed: int
    uncounted: int


class CostReport(_CostNotes):
    by: list[str]
    zone: str
    since: str | None
    until: str | None
    rows: list[CostRow]
    total: CostSums
    unpriced_models: list[str | None]
    unpriced_model_count: int
    budgets: list[dict[str, Any]]


class FileVersion(TypedDict):
    path: str
    version: int
    time: str | None
    entry: str | None
    bytes: int | None


class Counted(TypedDict):
    messages: int
    responses: int
    usage: Usage


class Stats(TypedDict):
    total: Counted
    by_role: dict[str, int]
    by_agent: dict[str, Counted]
    by_model: dict[str, Counted]
    by_hour: dict[str, Counted]
    by_day: dict[str, Counted]


class Trashed(TypedDict):
    #: in the trash
    id: str
    session: str
    files: int
    bytes: int


class FileReport(TypedDict):
    path: str
    lines: int
    valid: int
    bytes: int
    flaws: list[FoundFlaw]


class Converted(TypedDict):
    sessions: int
    #: what the target lacks, with reasons
    lost: list[str]


class Event(TypedDict):
    kind: Literal["entry", "caught_up", "began", "reset", "gone", "polling", "trouble"]
    session: str | None
    agent: str | None
    file: str | None
    entry: Entry | None
    #: whether the entry was there before
    earlier: bool
    #: where `follow(since=...)` goes on without loss; `None` if more than 64 logs are followed, or documents and databases
    cursor: str | None
    why: str | None
