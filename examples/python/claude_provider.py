"""agentpool's ClaudeStorageProvider over the program `annals`.

Plain Python without packages. Every method runs the program once and reads one JSON document; the
program appends atomically, locks the session, and keeps everything else in the root as it is.

    provider = ClaudeStorageProvider(base_dir="~/.claude")
    await provider.log_message(
        project_path="/path/to/project",
        message=ChatMessage(role="user", content="Hello"),
        session_id=str(uuid.uuid4()),
    )
"""
import asyncio
import json
import os
from dataclasses import dataclass, field


class AnnalsError(Exception):
    """The program refused, with its own words."""


@dataclass
class ChatMessage:
    """What was said: a text or a list of content blocks, as in the Messages API."""

    role: str
    content: object
    model: str | None = None
    usage: dict | None = None
    message_id: str | None = None
    parent_id: str | None = None
    timestamp: str | None = None
    metadata: dict = field(default_factory=dict)

    def draft(self):
        """The line that `annals append` takes."""
        members = {"role": self.role, "content": self.content, "model": self.model, "usage": self.usage,
                   "id": self.message_id, "parent": self.parent_id, "timestamp": self.timestamp}
        return {name: value for name, value in members.items() if value is not None}

    @classmethod
    def of_entry(cls, entry):
        """A message from an entry as `annals show --json` prints it."""
        known = ("role", "model", "usage", "id", "parent", "time", "blocks")
        rest = {name: value for name, value in entry.items() if name not in known}
        return cls(role=entry["role"], content=entry["blocks"], model=entry["model"], usage=entry["usage"],
                   message_id=entry["id"], parent_id=entry["parent"], timestamp=entry["time"], metadata=rest)

    @property
    def text(self):
        """The words of it."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(block["text"] for block in self.content if block.get("kind") == "text")


class ClaudeStorageProvider:
    """Keeps conversations in a root of Claude Code."""

    def __init__(self, base_dir="~/.claude", program="annals", env=None):
        self.root = os.path.expanduser(base_dir)
        self.program = program
        self.env = env

    async def log_message(self, project_path, message, session_id, agent_id=None):
        """Appends a message and returns its id; the session begins with its first message."""
        if not await self._has_session(session_id):
            await self._run("new", "--id", session_id, "--cwd", project_path)
        agent = ["--agent", agent_id] if agent_id else []
        line = json.dumps(message.draft()) + "\n"
        done = await self._run("append", *agent, "--", session_id, stdin=line)
        return done["entries"][-1]["id"]

    async def get_sessions(self, project_path):
        """The sessions of a project, the latest first."""
        found = await self._run("sessions", "--project", project_path, empty={"sessions": []})
        return [{"sessionId": row["id"], **row} for row in found["sessions"]]

    async def get_session_messages(self, project_path, session_id, limit=None):
        """The messages of a session's current conversation, or the last of them."""
        last = ["--last", str(limit)] if limit else []
        shown = await self._run("show", *last, "--", session_id, empty={"entries": []})
        return messages(shown)

    async def get_message(self, session_id, message_id):
        """One message."""
        shown = await self._run("show", "--context", "0", "--", "%s@%s" % (session_id, message_id))
        return messages(shown)[0]

    async def get_message_ancestry(self, session_id, message_id):
        """All that led to a message, and the message itself last."""
        return messages(await self._run("show", "--", "%s@%s" % (session_id, message_id)))

    async def fork(self, session_id, message_id, new_session_id=None):
        """Copies the conversation up to a message into a session of its own and returns its id."""
        given = ["--id", new_session_id] if new_session_id else []
        forked = await self._run("fork", *given, "--", "%s@%s" % (session_id, message_id))
        return forked["session"]

    async def stats(self, project_path):
        """Messages, tokens and cost of a project."""
        sessions = await self.get_sessions(project_path)
        nothing = {"total": {"input": 0, "output": 0, "cost_usd": "0"}}
        cost = await self._run("cost", "--project", project_path, empty=nothing)
        return {"sessions": len(sessions), "messages": sum(row["messages"] for row in sessions), **cost["total"]}

    async def reset(self, project_path):
        """Moves a project's sessions to the trash and returns how many there were."""
        sessions = await self.get_sessions(project_path)
        if sessions:
            await self._run("delete", "--project", project_path, "--apply")
        return len(sessions)

    async def _has_session(self, session_id):
        rows = await self._run("sessions", empty={"sessions": []})
        return any(row["id"] == session_id for row in rows["sessions"])

    async def _run(self, verb, *args, stdin="", empty=None):
        """Runs the program; `empty` is the answer where nothing was found."""
        process = await asyncio.create_subprocess_exec(
            self.program, "--root", "claude-code:" + self.root, "--json", verb, *args, env=self.env,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        out, err = await process.communicate(stdin.encode())
        if process.returncode == 1 and empty is not None:
            return json.loads(out) if out.strip() else empty
        if process.returncode != 0:
            raise AnnalsError(err.decode(errors="replace").strip())
        return json.loads(out)


def messages(shown):
    """The messages of what `annals show --json` printed."""
    return [ChatMessage.of_entry(entry) for entry in shown["entries"] if entry["kind"] == "message"]
