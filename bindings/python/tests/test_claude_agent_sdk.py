"""The adapter for claude-agent-sdk, with the package's own conformance suite."""

import asyncio
import itertools

import pytest

pytest.importorskip("claude_agent_sdk")

from claude_agent_sdk import fold_session_summary  # noqa: E402
from claude_agent_sdk.testing import run_session_store_conformance  # noqa: E402

from annals_store import Root, Store  # noqa: E402
from annals_store.adapters.claude_agent_sdk import SessionStore  # noqa: E402

KEY = {"project_key": "-home-me-app", "session_id": "11111111-0000-4000-8000-000000000001"}
LINE = {"type": "user", "uuid": "a", "timestamp": "2026-03-01T12:00:00Z", "customTitle": "first"}


def test_the_conformance_suite_of_the_package_passes(tmp_path):
    numbers = itertools.count()

    def make():
        place = tmp_path / str(next(numbers))
        return SessionStore(place / "claude", state=place / "state")

    asyncio.run(run_session_store_conformance(make))
    assert next(numbers) > 14


def test_an_entry_is_stored_once_and_summarised_after_an_interruption(tmp_path):
    async def run():
        store = SessionStore(tmp_path / "claude", state=tmp_path / "state")
        await store.append(KEY, [LINE])
        await store.append(KEY, [LINE, {**LINE, "uuid": "b", "customTitle": "half \ud83d"}])
        assert [entry["uuid"] for entry in await store.load(KEY)] == ["a", "b"]
        # An append without its summary, as after a kill.
        mirror = Store(Root("claude-code", tmp_path / "claude"), state=tmp_path / "state").mirror(*KEY.values())
        third = {**LINE, "uuid": "c", "customTitle": "third"}
        assert mirror.append([third]) == 1
        await store.append(KEY, [{"type": "mode"}])
        [summary] = await store.list_session_summaries(KEY["project_key"])
        entries = await store.load(KEY)
        assert summary["data"] == fold_session_summary(None, KEY, entries)["data"]

    asyncio.run(run())


def test_names_that_lead_elsewhere_are_refused(tmp_path):
    store = SessionStore(tmp_path / "claude", state=tmp_path / "state")
    for key in ({**KEY, "project_key": "../x"}, {**KEY, "subpath": "../../x"}, {**KEY, "session_id": "a/b"}):
        with pytest.raises(Exception, match="not|cannot"):
            asyncio.run(store.append(key, [LINE]))
    assert not [path for path in tmp_path.rglob("*.jsonl")]
