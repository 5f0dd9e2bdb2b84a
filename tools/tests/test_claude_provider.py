"""The Python provider over the program; `./test` runs it."""
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
        self.provider = ClaudeStorageProvider(str(self.root), str(PROGRAM), env)

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
        message = await self.provider.get_message("my session 1", second)
        self.assertEqual((message.text, message.parent_id), ("two", first))
        line = await self.provider.get_message_ancestry("my session 1", third)
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
            await self.provider.get_message("my session 1", "nowhere")


if __name__ == "__main__":
    unittest.main()
