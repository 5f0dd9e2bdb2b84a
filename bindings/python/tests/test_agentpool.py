"""The provider answers as agentpool's own provider in memory does, for the same calls."""

import asyncio
import dataclasses
import json
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

pytest.importorskip("agentpool_storage", reason="agentpool needs Python 3.13")

from agentpool.messaging import ChatMessage, TokenCost  # noqa: E402
from agentpool.sessions.models import ProjectData, SessionData  # noqa: E402
from agentpool.storage.manager import StorageManager  # noqa: E402
from agentpool_config.session import SessionQuery  # noqa: E402
from agentpool_config.storage import StorageConfig  # noqa: E402
from agentpool_storage.memory_provider import MemoryStorageProvider  # noqa: E402
from agentpool_storage.base import StorageProvider  # noqa: E402
from agentpool_storage.models import QueryFilters, StatsFilters  # noqa: E402
from pydantic_ai import (  # noqa: E402
    ModelRequest,
    ModelResponse,
    RunUsage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from annals_store import Root, Store  # noqa: E402
from annals_store.adapters.agentpool import AnnalsStorageConfig, AnnalsStorageProvider  # noqa: E402

DAY = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
ONE, TWO, FORK = "11111111-0000-4000-8000-000000000001", "ses_02", "ses_fork"


def at(seconds):
    return DAY + timedelta(seconds=seconds)


def user(id, text, session=ONE, parent=None, seconds=0, **more):
    return ChatMessage(role="user", content=text, message_id=id, session_id=session, parent_id=parent,
                       timestamp=at(seconds), **more)


def reply(id, text, session=ONE, parent=None, seconds=0, name="coder", **more):
    usage = RunUsage(input_tokens=100, output_tokens=20, cache_read_tokens=30, cache_write_tokens=10)
    more = {"model_name": "claude-sonnet-4-5", "usage": usage, "cost_info": TokenCost(total_cost=Decimal("0.0123")), **more}
    return ChatMessage(role="assistant", content=text, message_id=id, session_id=session, parent_id=parent, name=name,
                       timestamp=at(seconds), **more)


MESSAGES = [
    user("m1", "Why does the build fail? ✓", seconds=0),
    reply("m2", "A flag is missing.", parent="m1", seconds=1, response_time=1.5, metadata={"tries": 2},
          provider_name="anthropic", provider_response_id="r1", finish_reason="stop"),
    user("m3", "Add it.\n\nPlease", parent="m2", seconds=2, name="me"),
    reply("m4", "Done.", parent="m3", seconds=3, name="reviewer", model_name="claude-opus-4-5"),
    user("m5", "Another way?", parent="m2", seconds=4),
    user("n1", "Where are the readers?", session=TWO, seconds=86_400),
    reply("n2", "In src.", session=TWO, parent="n1", seconds=86_401),
]


class Both:
    """Calls both providers, and compares their answers."""

    def __init__(self, ours, theirs):
        self.ours, self.theirs = ours, theirs

    async def __call__(self, name, *args, **options):
        answers = []
        for provider in (self.ours, self.theirs):
            try:
                answers.append(comparable(await getattr(provider, name)(*args, **options)))
            except ValueError as error:
                answers.append(str(error))
        assert answers[0] == answers[1], (name, args, options)
        return answers[0]


def comparable(value):
    if isinstance(value, ChatMessage):
        value = dataclasses.asdict(dataclasses.replace(value, messages=[]))
        return {**value, "session_id": None}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return {name: comparable(member) for name, member in value.items()}
    return value


@pytest.fixture
def ours(tmp_path):
    provider = AnnalsStorageProvider(tmp_path / "claude", state=tmp_path / "state", cwd="/home/me/app")
    yield provider
    provider.cleanup()


@pytest.fixture
def both(ours):
    return Both(ours, MemoryStorageProvider())


async def fill(both, messages=MESSAGES):
    await both("log_session", session_id=ONE, node_name="coder", start_time=at(0))
    await both("log_session", session_id=TWO, node_name="reader", start_time=at(86_400))
    await both("log_session", session_id=ONE, node_name="ignored", start_time=at(9))
    for message in messages:
        await both("log_message", message=message)


def run(work):
    return asyncio.run(work)


def test_every_method_of_the_base_class_is_implemented():
    inherited = {"aggregate_stats", "should_log_agent"}
    names = {name for name, member in vars(StorageProvider).items() if callable(member) and not name.startswith("_")}
    assert names - inherited <= vars(AnnalsStorageProvider).keys()


def test_messages_are_found_as_they_were_logged(both):
    async def check():
        await fill(both)
        assert len(await both("get_session_messages", ONE)) == 5
        await both("get_session_messages", TWO, include_ancestors=True)
        await both("get_session_messages", "nothing")
        for id in ("m1", "m4", "n2", "nothing"):
            await both("get_message", id)
        await both("get_message", "m4", session_id=ONE)
        assert [it["message_id"] for it in await both("get_message_ancestry", "m5", session_id=ONE)] == ["m1", "m2", "m5"]
        await both("get_message_ancestry", "n2")
        assert "Duplicate" in await both("log_message", message=MESSAGES[0])

    run(check())


def test_messages_are_filtered(both):
    async def check():
        await fill(both)
        for query in [{}, {"name": ONE}, {"agents": {"coder"}}, {"roles": {"user"}}, {"contains": "flag"}, {"limit": 2},
                      {"until": at(2).isoformat()}, {"since": "1h"}, {"name": TWO, "roles": {"assistant"}}]:
            await both("filter_messages", SessionQuery(**query))
        for filters in [{}, {"agent_name": "coder"}, {"agent_name": "nobody"}, {"since": at(10)}, {"query": "flag"},
                        {"model": "claude-opus-4-5"}, {"limit": 1}]:
            await both("get_sessions", QueryFilters(**filters))
        for group in ("agent", "model", "hour", "day"):
            await both("get_session_stats", StatsFilters(cutoff=at(-1), group_by=group))
        await both("get_session_stats", StatsFilters(cutoff=at(100), group_by="agent", agent_name="coder"))
        assert await both("get_session_counts") == (2, 7)
        await both("get_session_counts", agent_name="reader")

    run(check())


def test_filtered_conversations_are_short_if_asked(ours):
    async def check():
        await fill(Both(ours, MemoryStorageProvider()))
        found = await ours.get_filtered_conversations(query="build", compact=True, include_tokens=True)
        assert [message.message_id for message in found[0]["messages"]] == ["m1"]
        found = await ours.get_filtered_conversations(agent_name="coder", compact=True)
        assert [message.message_id for message in found[0]["messages"]] == ["m1", "m5"]
        assert found[0]["token_usage"] is None
        assert await ours.get_filtered_conversations(period="1h") == []

    run(check())


def test_sessions_titles_commands_and_projects(both):
    async def check():
        await fill(both)
        await both("get_session_title", ONE)
        await both("update_session_title", ONE, "Fix the build")
        await both("update_session_title", "nothing", "x")
        assert await both("get_session_title", ONE) == "Fix the build"
        await both("get_session_title", "nothing")
        assert sorted(await both.ours.list_session_ids()) == sorted(await both.theirs.list_session_ids())
        await both("list_session_ids", agent_name="reader")
        await both("list_session_ids", pool_id="pool")
        data = SessionData(session_id="saved", agent_name="coder", pool_id="pool", cwd="/home/me/lib", metadata={"title": "A title"})
        await both("save_session", data)
        await both("load_session", "saved")
        await both("update_sdk_session_id", "saved", "sdk")
        assert (await both("load_session", "saved")).sdk_session_id == "sdk"
        await both("load_session", "nothing")
        await both("list_session_ids", pool_id="pool")
        for command in ("one", "two"):
            await both("log_command", agent_name="coder", session_id=ONE, command=command)
        await both("log_command", agent_name="reader", session_id=TWO, command="three", metadata={"x": 1})
        await both("get_commands", "coder", ONE)
        await both("get_commands", "coder", TWO, current_session_only=True)
        await both("get_commands", "coder", ONE, limit=1)
        older = ProjectData(project_id="p1", worktree="/home/me/app", created_at=at(0), last_active=at(0))
        newer = ProjectData(project_id="p/2", worktree="/home/me/lib", name="lib", created_at=at(0), last_active=at(5))
        for project in (older, newer):
            await both("save_project", project)
        await both("list_projects")
        await both("list_projects", limit=1)
        await both("get_project", "p/2")
        await both("get_project", "p3")
        await both("get_project_by_worktree", "/home/me/app")
        await both("get_project_by_name", "lib")
        await both.ours.touch_project("p1")
        assert (await both.ours.list_projects())[0].project_id == "p1"
        await both("delete_project", "p1")
        assert await both("delete_project", "p1") is False
        assert await both("delete_session", "saved") is True
        assert await both("delete_session", "saved") is False

    run(check())


def test_forks_have_the_messages_before_them_as_ancestors(both, tmp_path):
    async def check():
        await fill(both)
        await both("fork_conversation", source_session_id="nothing", new_session_id=FORK)
        await both("fork_conversation", source_session_id=ONE, new_session_id=FORK, fork_from_message_id="n1")
        assert await both("fork_conversation", source_session_id=ONE, new_session_id=FORK, fork_from_message_id="m3") == "m3"
        await both("get_session_messages", FORK)
        await both("log_message", message=user("f1", "Not that one", session=FORK, parent="m3", seconds=50))
        await both("log_message", message=reply("f2", "This?", session=FORK, parent="f1", seconds=51))
        assert [it["message_id"] for it in await both("get_session_messages", FORK)] == ["f1", "f2"]
        all_of_it = await both("get_session_messages", FORK, include_ancestors=True)
        assert [it["message_id"] for it in all_of_it] == ["m1", "m2", "m3", "f1", "f2"]
        await both("get_message_ancestry", "f2", session_id=FORK)
        assert await both("fork_conversation", source_session_id=TWO, new_session_id="ses_x", new_agent_name="a") == "n2"
        assert [it["agent"] for it in await both.ours.get_sessions(QueryFilters(agent_name="a"))] == ["a"]

    run(check())
    # The log of a fork has the whole conversation, as Claude Code needs it.
    both.ours.cleanup()
    store = Store(Root("claude-code", tmp_path / "claude"), state=tmp_path / "state")
    texts = [entry["blocks"][0]["text"] for entry in store.session(FORK).messages()]
    assert texts == ["Why does the build fail? ✓", "A flag is missing.", "Add it.\n\nPlease", "Not that one", "This?"]
    assert [report["flaws"] for report in store.check() if report["flaws"]] == []


def test_messages_are_replaced_after_a_compaction(both, tmp_path):
    async def check():
        await fill(both)
        assert await both("delete_session_messages", ONE) == 5
        await both("get_session_messages", ONE)
        assert await both("delete_session_messages", ONE) == 0
        for message in (reply("s1", "They fixed the build.", seconds=60), MESSAGES[4]):
            await both("log_message", message=message)
        assert len(await both("get_session_messages", ONE)) == 2
        await both("get_message", "m5")

    run(check())
    both.ours.cleanup()
    again = AnnalsStorageProvider(tmp_path / "claude", state=tmp_path / "state")
    messages = run(again.get_session_messages(ONE))
    assert sorted(message.message_id for message in messages) == ["m5", "s1"]
    log = next(Path(tmp_path).glob(f"claude/projects/*/{ONE}.jsonl")).read_text()
    assert "A flag is missing." in log, "nothing is cut from a log"
    context = Store(Root("claude-code", tmp_path / "claude"), state=tmp_path / "state").session(ONE).context()
    assert "A flag is missing." not in json.dumps(context) and "They fixed the build." in json.dumps(context)


def test_a_reset_goes_to_the_trash(both, tmp_path):
    async def check():
        await fill(both)
        assert await both("reset", agent_name="reader") == (1, 2)
        assert await both("get_session_counts") == (1, 5)
        await both("get_session_messages", TWO)
        await both("reset", agent_name="coder", hard=True)
        assert await both("reset") == (1, 5)
        assert await both("get_session_counts") == (0, 0)
        assert await both("list_session_ids") == []

    run(check())
    store = Store(Root("claude-code", tmp_path / "claude"), state=tmp_path / "state")
    store.undelete(ONE)
    back = run(both.ours.get_session_messages(ONE))
    assert [message.name for message in back] == [None, "coder", "me", "reviewer", None]


def test_model_messages_are_blocks_of_the_log(ours, tmp_path):
    call = ToolCallPart(tool_name="Bash", args={"command": "make"}, tool_call_id="toolu_1")
    messages = [
        ModelRequest(parts=[UserPromptPart(content="Build it")]),
        ModelResponse(parts=[ThinkingPart(content="Hm", signature="sig"), TextPart(content="Let me see."), call]),
        ModelRequest(parts=[ToolReturnPart(tool_name="Bash", content="no such flag", tool_call_id="toolu_1")]),
        ModelResponse(parts=[TextPart(content="A flag is missing.")]),
    ]
    prompt = user("m1", "Build it", messages=messages[:1])
    answer = reply("m2", "A flag is missing.", parent="m1", seconds=5, messages=messages[1:])

    async def check():
        for message in (prompt, answer):
            await ours.log_message(message=message)
        found = await ours.get_session_messages(ONE)
        assert [message.message_id for message in found] == ["m1", "m2"]
        assert found[1].content == "A flag is missing." and found[1].usage == answer.usage
        kinds = [[type(part).__name__ for part in message.parts] for message in found[1].messages]
        assert kinds == [["ThinkingPart", "TextPart", "ToolCallPart"], ["ToolReturnPart"], ["TextPart"]]
        assert found[1].messages[1].parts[0].tool_name == "Bash"
        assert found[1].cost_info == answer.cost_info

    run(check())
    ours.cleanup()
    session = Store(Root("claude-code", tmp_path / "claude"), state=tmp_path / "state").session(ONE)
    blocks = [block["kind"] for entry in session.messages() for block in entry["blocks"]]
    assert blocks == ["text", "thinking", "text", "tool_use", "tool_result", "text"]
    members = (tmp_path / "state" / "agentpool" / "messages" / f"{ONE}.jsonl").read_text()
    assert "no such flag" not in members, "what the log has is not stored twice"


def test_sessions_of_claude_code_are_read(ours, tmp_path):
    store = Store(Root("claude-code", tmp_path / "claude"), state=tmp_path / "state")
    with store.begin("/home/me/app", title="By hand") as writer:
        writer.user("Where is it?")
        call = {"type": "tool_use", "id": "toolu_9", "name": "Grep", "input": {"pattern": "it"}}
        writer.assistant([{"type": "text", "text": "I search."}, call], model="claude-sonnet-4-5",
                         usage={"input": 10, "output": 2}, message_id="msg_1")
        writer.tool_result("toolu_9", "here")

    async def check():
        messages = await ours.get_session_messages(writer.id)
        assert [(message.role, message.content) for message in messages] == [
            ("user", "Where is it?"), ("assistant", "I search."), ("user", "")]
        assert messages[1].usage.output_tokens == 2 and messages[1].name == "claude"
        assert messages[2].messages[0].parts[0].content == "here"
        assert await ours.get_session_title(writer.id) == "By hand"
        assert (await ours.load_session(writer.id)).agent_name == "claude"
        await ours.log_message(message=user("m1", "Thanks", session=writer.id, parent=messages[2].message_id))
        assert (await ours.get_message_ancestry("m1"))[0].content == "Where is it?"

    run(check())


def test_two_providers_write_to_one_session(ours, tmp_path):
    other = AnnalsStorageProvider(tmp_path / "claude", state=tmp_path / "state", cwd="/home/me/app")

    async def check():
        for number in range(10):
            provider = (ours, other)[number % 2]
            await provider.log_message(message=user(f"m{number}", f"text {number}", seconds=number))
        assert len(await ours.get_session_messages(ONE)) == 10

    run(check())
    other.cleanup()


def test_the_manager_of_agentpool_uses_it(tmp_path):
    config = AnnalsStorageConfig(path=str(tmp_path / "claude"), state=str(tmp_path / "state"), cwd="/home/me/app")

    async def check():
        async with StorageManager(StorageConfig.model_construct(providers=[config])) as manager:
            await manager.log_session(session_id=ONE, node_name="coder")
            await manager.log_message(MESSAGES[0])
            assert [it.content for it in await manager.get_session_messages(ONE)] == [MESSAGES[0].content]
            assert await manager.replace_conversation_messages(ONE, [user("s", "In short")]) == (1, 1)
            assert [it.content for it in await manager.get_session_messages(ONE)] == ["In short"]

    run(check())
