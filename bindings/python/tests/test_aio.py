import asyncio

import pytest

from annals_store import AnnalsError
from annals_store.aio import AsyncStore


def test_the_same_names_are_awaited(store):
    async def run():
        aio = AsyncStore(store)
        async with await aio.begin("/home/me/app") as writer:
            # The calls of one writer keep their order, whoever awaits them first.
            entries = await asyncio.gather(*(writer.user(f"message {n}") for n in range(20)))
            assert [entry["parent"] for entry in entries[1:]] == [entry["id"] for entry in entries[:-1]]
            id = writer.id
        session = await aio.session(id)
        assert len(await session.messages()) == 20 and session.info["id"] == id
        assert [row["id"] for row in await aio.sessions()] == [id]
        with pytest.raises(AnnalsError):
            await writer.user("closed")
        with pytest.raises(AnnalsError):
            await aio.session("nope")

    asyncio.run(run())


def test_events_are_followed(store):
    async def run():
        aio = AsyncStore(store)
        seen = []

        async def read():
            async for event in aio.follow():
                if event["kind"] == "caught_up":
                    ready.set()
                # The session begins with a record of its own.
                if event["kind"] == "entry" and event["entry"]["role"] == "user":
                    seen.append(event["entry"]["blocks"][0]["text"])
                if len(seen) == 3:
                    return

        ready = asyncio.Event()
        reader = asyncio.create_task(read())
        await asyncio.wait_for(ready.wait(), 30)
        async with await aio.begin("/home/me/app") as writer:
            for text in ("one", "two", "three"):
                await writer.user(text)
        await asyncio.wait_for(reader, 30)
        assert seen == ["one", "two", "three"]

    asyncio.run(run())


def test_a_follower_is_an_iterator_and_ends_when_it_is_closed(store):
    with store.begin("/home/me/app") as writer:
        writer.user("before")
        follower = store.follow(session=writer.id, last=1)
        first = next(event for event in follower if event["kind"] == "entry")
        assert first["earlier"] is True
        writer.user("after")
        fresh = next(event for event in follower if event["kind"] == "entry")
        assert fresh["entry"]["blocks"][0]["text"] == "after" and fresh["earlier"] is False
        follower.close()
        assert list(follower) == []
