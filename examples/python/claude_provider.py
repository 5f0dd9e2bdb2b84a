"""agentpool's ClaudeStorageProvider over the program `annals`.

Plain Python without packages. Messages are logged through one child process, `annals append --follow`,
which lives as long as the provider: a message is one line to it, and its answer says that the message is
safe on the disk. Every other method runs the program once or twice and reads JSON documents. The program
appends atomically, locks the session, and keeps everything else in the root as it is.

    async with ClaudeStorageProvider(base_dir="~/.claude") as provider:
        await provider.log_message(
            project_path="/path/to/project",
            message=ChatMessage(role="user", content="Hello"),
            session_id=str(uuid.uuid4()),
        )
"""
import asyncio
import json
import os
import tempfile
from dataclasses import dataclass, field

# An answer names every entry of its message.
LONGEST_ANSWER = 1 << 26


class AnnalsError(Exception):
    """The program refused, with its own words."""


@dataclass
class ChatMessage:
    """What was said: a text or a list of content blocks, as in the Messages API or as they were read.

    A log has no place for `metadata`: a message that has some is not logged. `entries` are the log's entries
    that a message was read from, as `annals show` prints them: the client stores one content block a line, so
    a reply of three blocks has three, and `message_id` is the id of the last. They are not logged again.
    """

    role: str
    content: object
    model: str | None = None
    usage: dict | None = None
    message_id: str | None = None
    parent_id: str | None = None
    timestamp: str | None = None
    metadata: dict = field(default_factory=dict)
    entries: list = field(default_factory=list, repr=False, compare=False)

    def draft(self):
        """The line that `annals append` takes; raises ValueError for what cannot be kept."""
        if self.metadata:
            raise ValueError("a log has no place for metadata: %s" % ", ".join(map(str, self.metadata)))
        content = self.content
        if not isinstance(content, str):
            content = [block_to_log(block) for block in content]
        members = {"role": self.role, "content": content, "model": self.model, "usage": usage_to_log(self.usage),
                   "id": self.message_id, "parent": self.parent_id, "timestamp": self.timestamp}
        return {name: value for name, value in members.items() if value is not None}

    @classmethod
    def from_entries(cls, entries):
        """A message from its entries as `annals show --json` prints them."""
        first, last = entries[0], entries[-1]
        content = [block for entry in entries for block in entry["blocks"]]
        return cls(role=last["role"], content=content, model=last["model"], usage=last["usage"],
                   message_id=last["id"], parent_id=first["parent"], timestamp=first["time"], entries=entries)

    @property
    def text(self):
        """The words of it."""
        if isinstance(self.content, str):
            return self.content
        texts = (block["text"] for block in self.content if "text" in (block.get("kind"), block.get("type")))
        return "\n".join(texts)


def block_to_log(block):
    """A content block as the Messages API has it; one that was read has a `kind` instead of a `type`."""
    kind = block.get("kind")
    if kind is None:
        return block
    # Members that the Messages API may add, such as `citations`.
    further = block.get("members", {})
    if kind == "text":
        return {"type": "text", "text": block["text"], **further}
    if kind == "thinking":
        signature = {"signature": block["signature"]} if "signature" in block else {}
        return {"type": "thinking", "thinking": block["text"], **signature, **further}
    if kind == "tool_use":
        return {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block["input"], **further}
    if kind == "tool_result":
        return {"type": "tool_result", "tool_use_id": block["call"], "is_error": block["is_error"],
                "content": [block_to_log(part) for part in block["output"]], **further}
    if kind == "opaque" and isinstance(block["json"], dict):
        return block["json"]
    raise ValueError("a block of the kind %r was read without its content and cannot be logged" % kind)


def usage_to_log(usage):
    """Token counts as the Messages API has them; those that were read are spelled shorter."""
    if usage is None or "input" not in usage:
        return usage
    known = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
    rest = [name for name, value in usage.items() if name not in known and value]
    if rest:
        raise ValueError("these counts cannot be logged: %s" % ", ".join(rest))
    short, long = usage.get("cache_write_5m", 0), usage.get("cache_write_1h", 0)
    return {"input_tokens": usage["input"], "output_tokens": usage["output"],
            "cache_read_input_tokens": usage.get("cache_read", 0), "cache_creation_input_tokens": short + long,
            "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long}}


class ClaudeStorageProvider:
    """Keeps conversations in a root of Claude Code. `close` ends its child process."""

    def __init__(self, base_dir="~/.claude", program="annals", env=None):
        self.root = os.path.expanduser(base_dir)
        self.program = program
        self.env = env
        self._child = None
        self._lock = None
        self._loop = None

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    async def log_message(self, project_path, message, session_id, agent_id=None):
        """Appends a message and returns its id. The session begins with its first message, in the project;
        an `agent_id` means the log of that sub-agent, which begins with its first message too."""
        line = {"new": {"id": session_id, "cwd": os.fspath(project_path)}, **message.draft()}
        if agent_id is not None:
            line["agent"] = agent_id
        answer = await self._send(line)
        return answer["entries"][-1]["id"]

    async def close(self):
        """Ends the child process; the next message starts another."""
        child, self._child = self._child, None
        if child is not None and self._loop is asyncio.get_running_loop():
            child.process.stdin.close()
            await child.process.wait()
            child.errors.close()

    async def get_sessions(self, project_path):
        """The sessions of a project, the latest first."""
        project = os.fspath(project_path)
        found = await self._run("sessions", "--project=" + project, empty={"sessions": []})
        return [{"sessionId": row["id"], **row} for row in found["sessions"]]

    async def get_session_messages(self, project_path, session_id, limit=None, agent_id=None):
        """The messages of a session's current conversation, or the last of them; none if the project has no
        such session."""
        if limit is not None and limit < 0:
            raise ValueError("limit is negative: %d" % limit)
        if limit == 0:
            return []
        log = await self._log_of(project_path, session_id)
        if log is None:
            return []
        agent = ["--agent=" + agent_id] if agent_id is not None else []
        if limit is None:
            return messages(await self._run("show", *agent, "--", log, empty={"entries": []}))
        # The first message of a part may have begun before it.
        lines = limit + 8
        while True:
            shown = await self._run("show", "--last=%d" % lines, *agent, "--", log, empty={"entries": []})
            found = messages(shown)
            if len(found) > limit or len(shown["entries"]) < lines:
                return found[-limit:]
            lines *= 4

    async def get_message(self, message_id, session_id=None, project_path=None):
        """One message; without a session, the message of that id in any session."""
        target = await self._target(session_id, message_id, project_path)
        around = 8
        while True:
            shown = await self._run("show", "--context=%d" % around, "--", target)
            found = messages(shown)
            at = next(n for n, message in enumerate(found) if any(it["id"] == message_id for it in message.entries))
            # A reply may have more entries than were asked for.
            if len(found[at].entries) <= around:
                return found[at]
            around *= 4

    async def get_message_ancestry(self, message_id, session_id=None, project_path=None):
        """All that led to a message, and the message itself last."""
        target = await self._target(session_id, message_id, project_path)
        return messages(await self._run("show", "--", target))

    async def fork(self, session_id, message_id, new_session_id=None, project_path=None):
        """Copies the conversation up to a message into a session of its own and returns its id."""
        given = ["--id=" + new_session_id] if new_session_id is not None else []
        target = await self._target(session_id, message_id, project_path)
        return (await self._run("fork", *given, "--", target))["session"]

    async def stats(self, project_path):
        """Messages, tokens and cost of a project."""
        sessions = await self.get_sessions(project_path)
        nothing = {"total": {"input": 0, "output": 0, "cost_usd": "0"}}
        cost = await self._run("cost", "--project=" + os.fspath(project_path), empty=nothing)
        return {"sessions": len(sessions), "messages": sum(row["messages"] for row in sessions), **cost["total"]}

    async def reset(self, project_path):
        """Moves a project's sessions to the trash and returns how many there were."""
        sessions = await self.get_sessions(project_path)
        if sessions:
            # A log that is open for writing is not moved.
            await self.close()
            await self._run("delete", "--project=" + os.fspath(project_path), "--apply")
        return len(sessions)

    async def _log_of(self, project_path, session_id):
        """The log of a project's session: another project may have a session of that id."""
        for row in await self.get_sessions(project_path):
            if row["id"] == session_id:
                return row["file"]
        return None

    async def _target(self, session_id, message_id, project_path):
        if session_id is None:
            return message_id
        session = session_id
        if project_path is not None:
            session = await self._log_of(project_path, session_id)
            if session is None:
                raise AnnalsError("%s has no session %s" % (project_path, session_id))
        return "%s@%s" % (session, message_id)

    async def _send(self, line):
        """Sends a line to the child process and waits for its answer; lines of several tasks take turns."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # A child belongs to the loop that started it.
            self._loop, self._lock, self._child = loop, asyncio.Lock(), None
        async with self._lock:
            if self._child is None:
                self._child = await Child.start(self._command("append", "--follow"), self.env)
            child = self._child
            try:
                answer = await child.send(line)
            except BaseException:
                # The answer may still come: no other line must take it for its own.
                self._child = None
                child.process.stdin.close()
                child.errors.close()
                raise
        if not answer["ok"]:
            raise AnnalsError(answer["error"])
        return answer

    def _command(self, *args):
        return [self.program, "--root", "claude-code:" + self.root, "--json", *args]

    async def _run(self, *args, empty=None):
        """Runs the program; `empty` is the answer where nothing was found. What could not be read besides is in
        `problems` of the answer."""
        process = await asyncio.create_subprocess_exec(
            *self._command(*args), env=self.env, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        out, err = await process.communicate()
        if process.returncode == 1 and empty is not None:
            return json.loads(out) if out.strip() else empty
        incomplete = process.returncode == 2 and out.strip()
        if process.returncode != 0 and not incomplete:
            raise AnnalsError(err.decode(errors="replace").strip())
        answer = json.loads(out)
        if "error" in answer:
            raise AnnalsError(answer["error"]["message"])
        return answer


class Child:
    """A running `annals append --follow`."""

    def __init__(self, process, errors):
        self.process = process
        self.errors = errors

    @classmethod
    async def start(cls, command, env):
        """Starts the program."""
        errors = tempfile.TemporaryFile()
        process = await asyncio.create_subprocess_exec(
            *command, env=env, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors,
            limit=LONGEST_ANSWER)
        return cls(process, errors)

    async def send(self, line):
        """Sends a line and returns what became of it."""
        try:
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            await self.process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass  # Why it ended is told below.
        answer = await self.process.stdout.readline()
        if not answer.endswith(b"\n"):
            await self.process.wait()
            self.errors.seek(0)
            why = self.errors.read().decode(errors="replace").strip()
            raise AnnalsError(why or "the program ended with code %s" % self.process.returncode)
        return json.loads(answer)


def messages(shown):
    """The messages of what `annals show --json` printed; the lines of one response are one message."""
    found = []
    for entry in shown["entries"]:
        if entry["kind"] != "message":
            continue
        response = entry.get("response")
        if found and response is not None and found[-1][-1].get("response") == response:
            found[-1].append(entry)
        else:
            found.append([entry])
    return [ChatMessage.from_entries(entries) for entries in found]
