"""Tests of the Python provider that uses the program; `./test` runs them."""
import asyncio
import dataclasses
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAM = Path(os.environ.get("ANNALS_PROGRAM", TARGET / "debug" / "annals"))

sys.path.insert(0, str(ROOT / "examples" / "python"))
from claude_provider import AnnalsError, ChatMessage, ClaudeStorageProvider  # noqa: E402


@unittest.skipUnless(PROGRAM.is_file(), "%s is not built: run `cargo build`" % PROGRAM)
class Provider(unittest.IsolatedAsyncioTestCase):
    """The methods of agentpool's document."""

    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)
        work = Path(self.home.name) / "project"
        work.mkdir()
        self.project = str(work.resolve())
        env = {"HOME": self.home.name, "PATH": os.environ["PATH"]}
        self.root = Path(self.home.name) / ".claude"
        self.provider = self.another(env)

    def another(self, env=None):
        """Returns another provider of the same root, with its own child process."""
        provider = ClaudeStorageProvider(str(self.root), str(PROGRAM), env or self.provider.env)
        self.addAsyncCleanup(provider.close)
        return provider

    def logs(self, name):
        """Returns the logs of this name."""
        return list(self.root.rglob(name + ".jsonl"))

    async def say(self, *texts, session="my session 1"):
        """Logs prompts and returns their ids."""
        log = self.provider.log_message
        return [await log(self.project, ChatMessage("user", text), session) for text in texts]

    async def test_a_session_is_begun_resumed_and_listed(self):
        await self.say("Hello", "And now?")
        reply = ChatMessage("assistant", [{"type": "text", "text": "Hi"}], model="claude-sonnet-4-5",
                            usage={"input_tokens": 10, "output_tokens": 5})
        await self.provider.log_message(self.project, reply, "my session 1")
        sessions = await self.provider.get_sessions(self.project)
        self.assertEqual([row["sessionId"] for row in sessions], ["my session 1"])
        said = await self.provider.get_session_messages(self.project, "my session 1", limit=50)
        self.assertEqual([message.text for message in said], ["Hello", "And now?", "Hi"])
        last = await self.provider.get_session_messages(self.project, "my session 1", limit=1)
        self.assertEqual([(message.role, message.model) for message in last], [("assistant", "claude-sonnet-4-5")])
        stats = await self.provider.stats(self.project)
        self.assertEqual((stats["sessions"], stats["messages"], stats["output"]), (1, 3, 5))
        log = next(self.root.rglob("my session 1.jsonl")).read_text(encoding="utf-8")
        self.assertTrue(all(json.loads(line) for line in log.splitlines()))

    async def test_messages_are_found_traced_and_forked(self):
        first, second, third = await self.say("one", "two", "three")
        message = await self.provider.get_message(second, "my session 1")
        self.assertEqual((message.text, message.parent_id), ("two", first))
        line = await self.provider.get_message_ancestry(third, "my session 1")
        self.assertEqual([message.text for message in line], ["one", "two", "three"])
        fork = await self.provider.fork("my session 1", second, "my fork")
        self.assertEqual(fork, "my fork")
        copied = await self.provider.get_session_messages(self.project, "my fork")
        self.assertEqual([message.text for message in copied], ["one", "two"])

    async def test_a_reset_takes_the_sessions_of_one_project(self):
        await self.say("Hello")
        self.assertEqual(await self.provider.reset("/elsewhere"), 0)
        self.assertEqual(await self.provider.reset(self.project), 1)
        self.assertEqual(await self.provider.get_sessions(self.project), [])

    async def test_what_the_program_refuses_is_an_error(self):
        with self.assertRaises(AnnalsError):
            await self.say("Hello", session="../outside")
        await self.say("Hello")
        with self.assertRaises(AnnalsError):
            await self.provider.get_message("nowhere", "my session 1")

    async def test_all_messages_go_through_one_child(self):
        await self.say("one")
        child = self.provider._child.process.pid
        with self.assertRaises(AnnalsError):
            await self.say("refused", session="../outside")
        await self.say("two", session="my session 2")
        self.assertEqual(self.provider._child.process.pid, child)

    async def test_a_sub_agent_has_a_log_of_its_own(self):
        log, project, session = self.provider.log_message, self.project, "my session 1"
        await log(project, ChatMessage("user", "Look"), session, agent_id="a753668")
        await log(project, ChatMessage("assistant", "Found", model="m"), session, agent_id="a753668")
        await log(project, ChatMessage("user", "Other"), session, agent_id="a7")
        await self.say("Main")
        read = self.provider.get_session_messages
        texts = [message.text for message in await read(project, session, agent_id="a753668")]
        self.assertEqual(texts, ["Look", "Found"])
        self.assertEqual([message.text for message in await read(project, session)], ["Main"])
        self.assertEqual(len(self.logs("agent-a7")), 1)

    async def test_first_messages_at_the_same_time_begin_one_session(self):
        providers = [self.provider, self.another(), self.another()]
        messages = [(one, str(at)) for one in providers for at in range(3)]
        ids = await asyncio.gather(*(one.log_message(self.project, ChatMessage("user", text), "shared")
                                     for one, text in messages))
        self.assertEqual(len(set(ids)), 9)
        self.assertEqual(len(self.logs("shared")), 1)
        said = await self.provider.get_session_messages(self.project, "shared")
        self.assertEqual(sorted(message.message_id for message in said), sorted(ids))

    async def log_reply(self):
        """Logs a prompt, a reply of three blocks and a tool result."""
        blocks = [{"type": "thinking", "thinking": "hm", "signature": "SIG"},
                  {"type": "text", "text": "I run it", "citations": [{"cited_text": "x"}]},
                  {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}]
        usage = {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 1, "cache_creation_input_tokens": 9}
        result = [{"type": "tool_result", "tool_use_id": "t1", "content": "ok", "is_error": True}]
        prompt, = await self.say("Run it")
        log = self.provider.log_message
        reply = await log(self.project, ChatMessage("assistant", blocks, model="claude-sonnet-4-5", usage=usage),
                          "my session 1")
        answer = await log(self.project, ChatMessage("user", result), "my session 1")
        return prompt, reply, answer

    async def test_reply_of_several_blocks_is_read_as_one_message(self):
        prompt, reply, answer = await self.log_reply()
        read = self.provider.get_session_messages
        said = await read(self.project, "my session 1")
        self.assertEqual([message.message_id for message in said], [prompt, reply, answer])
        self.assertEqual([block["kind"] for block in said[1].content], ["thinking", "text", "tool_use"])
        self.assertEqual(said[1].parent_id, prompt)
        self.assertEqual(said[1].usage["input"], 3)
        last = await read(self.project, "my session 1", limit=2)
        self.assertEqual([message.message_id for message in last], [reply, answer])
        whole = await self.provider.get_message(reply)
        self.assertEqual(whole, said[1])
        inner = said[1].entries[0]["id"]
        self.assertEqual(await self.provider.get_message(inner, "my session 1"), said[1])
        line = await self.provider.get_message_ancestry(answer)
        self.assertEqual([message.message_id for message in line], [prompt, reply, answer])

    async def test_messages_that_were_read_can_be_logged_again(self):
        await self.log_reply()
        read = await self.provider.get_session_messages(self.project, "my session 1")
        before = await self.provider.stats(self.project)
        for message in read:
            again = dataclasses.replace(message, message_id=None, parent_id=None)
            await self.provider.log_message(self.project, again, "copy")
        copy = await self.provider.get_session_messages(self.project, "copy")
        for member in ("content", "usage", "text"):
            self.assertEqual([getattr(it, member) for it in copy], [getattr(it, member) for it in read])
        log = self.logs("copy")[0].read_text(encoding="utf-8")
        self.assertIn('"signature":"SIG"', log)
        self.assertIn('"cited_text"', log)
        after = await self.provider.stats(self.project)
        self.assertEqual(after["requests"], 2 * before["requests"])
        self.assertEqual(after["output"], 2 * before["output"])

    async def test_unreadable_file_of_the_project_does_not_hide_its_sessions(self):
        await self.say("Hello")
        folder = self.logs("my session 1")[0].parent
        (folder / "elsewhere.jsonl").symlink_to("/etc/passwd")
        sessions = await self.provider.get_sessions(self.project)
        self.assertEqual([row["sessionId"] for row in sessions], ["my session 1"])

    async def test_what_cannot_be_kept_is_an_error(self):
        picture = {"kind": "image", "media_type": "image/png", "bytes": 3}
        for message in (ChatMessage("user", "x", metadata={"mood": "good"}), ChatMessage("user", [picture])):
            with self.assertRaises(ValueError):
                await self.provider.log_message(self.project, message, "my session 1")
        self.assertEqual(self.logs("my session 1"), [])

    async def test_limits(self):
        await self.say("one", "two")
        read = self.provider.get_session_messages
        self.assertEqual(await read(self.project, "my session 1", limit=0), [])
        self.assertEqual([message.text for message in await read(self.project, "my session 1", limit=1)], ["two"])
        with self.assertRaises(ValueError):
            await read(self.project, "my session 1", limit=-1)

    async def test_reads_are_of_one_project(self):
        first = await self.say("one")
        other = Path(self.home.name) / "other"
        other.mkdir()
        self.assertEqual(await self.provider.get_session_messages(str(other), "my session 1"), [])
        with self.assertRaises(AnnalsError):
            await self.provider.get_message(first[0], "my session 1", project_path=str(other))
        message = await self.provider.get_message(first[0], "my session 1", project_path=self.project)
        self.assertEqual(message.text, "one")
        # A message is not written to another project's session of the same id.
        with self.assertRaises(AnnalsError):
            await self.provider.log_message(str(other), ChatMessage("user", "two"), "my session 1")
        self.assertEqual(len(await self.provider.get_session_messages(self.project, "my session 1")), 1)

    async def test_ids_are_never_options(self):
        first = await self.say("one")
        for bad in ("--help", "-n", "--apply"):
            with self.assertRaises(AnnalsError):
                await self.say("x", session=bad)
            self.assertEqual(await self.provider.get_session_messages(self.project, bad), [])
            with self.assertRaises(AnnalsError):
                await self.provider.get_message(bad, bad)
            with self.assertRaises(AnnalsError):
                await self.provider.fork("my session 1", first[0], bad)
            self.assertEqual(await self.provider.get_sessions(bad), [])

    async def test_a_child_that_ended_is_told_and_another_is_started(self):
        await self.say("one")
        self.provider._child.process.kill()
        with self.assertRaises(AnnalsError):
            await self.say("lost")
        await self.say("two")
        said = await self.provider.get_session_messages(self.project, "my session 1")
        self.assertEqual([message.text for message in said], ["one", "two"])


if __name__ == "__main__":
    unittest.main()
