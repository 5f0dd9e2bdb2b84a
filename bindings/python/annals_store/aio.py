"""The classes of the package with methods that are awaited.

A call runs in a thread, so the event loop goes on. Each writer has one thread, so its calls are carried out in
their order. Properties are not awaited.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from ._annals import Follower, Mirror, Session, Store, Writer

__all__ = ["AsyncMirror", "AsyncSession", "AsyncStore", "AsyncWriter"]


async def _run(executor: Executor | None, call: Callable[[], Any]) -> Any:
    return _wrap(await asyncio.get_running_loop().run_in_executor(executor, call))


def _wrap(value: Any) -> Any:
    """Returns the class with awaited methods for a value of a native class."""
    make = _CLASSES.get(type(value))
    return value if make is None else make(value)


def _awaited(name: str, native: type) -> Any:
    original = getattr(native, name)

    async def call(self: Any, /, *args: Any, **options: Any) -> Any:
        return await _run(self._executor, functools.partial(getattr(self._inner, name), *args, **options))

    call.__name__ = name
    call.__qualname__ = f"Async{native.__name__}.{name}"
    call.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    return call


def _property(name: str) -> Any:
    return property(lambda self: getattr(self._inner, name))


def _of(native: type, awaited: str, properties: str) -> Callable[[type], type]:
    def fill(made: type) -> type:
        for name in awaited.split():
            setattr(made, name, _awaited(name, native))
        for name in properties.split():
            setattr(made, name, _property(name))
        return made

    return fill


class _Async:
    _executor: Executor | None = None

    def __init__(self, inner: Any) -> None:
        self._inner = inner


@_of(
    Store,
    "begin resume fork delete undelete reset convert session tail sessions projects conversations search update_index cost check",
    "roots",
)
class AsyncStore(_Async):
    """A `Store` whose methods are awaited."""

    @staticmethod
    async def discover(*args: Any, **options: Any) -> Any:
        return await _run(None, functools.partial(Store.discover, *args, **options))

    def mirror(self, project: str, session: str, sub: str | None = None) -> Any:
        return AsyncMirror(self._inner.mirror(project, session, sub))

    def follow(
        self, *, project: str | None = None, session: str | None = None, last: int = 0, since: str | None = None
    ) -> AsyncIterator[Any]:
        return _follow(functools.partial(self._inner.follow, project=project, session=session, last=last, since=since))


@_of(
    Writer,
    "append append_raw user assistant tool_result delegate set_todos retitle tag note compact totals",
    "id agent path leaf",
)
class AsyncWriter(_Async):
    """A `Writer` whose methods are awaited."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._executor: Executor | None = ThreadPoolExecutor(1, thread_name_prefix="annals-writer")

    async def close(self) -> None:
        await _run(self._executor, self._inner.close)
        # Later calls are refused, which needs no thread of the writer's own.
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.close()


@_of(Session, "grow messages message ancestry context raw stats todos files file cost", "info conversations agents flaws")
class AsyncSession(_Async):
    """A `Session` whose methods are awaited."""


@_of(Mirror, "append load subs delete", "path")
class AsyncMirror(_Async):
    """A `Mirror` whose methods are awaited."""


_CLASSES: dict[type, Callable[[Any], Any]] = {
    Store: AsyncStore,
    Writer: AsyncWriter,
    Session: AsyncSession,
    Mirror: AsyncMirror,
}


async def _follow(begin: Callable[[], Follower]) -> AsyncIterator[Any]:
    follower = await _run(None, begin)
    async for event in _events(follower):
        yield event


async def _events(follower: Follower) -> AsyncIterator[Any]:
    """Yields the events of a follower, and closes it at the end."""
    with ThreadPoolExecutor(1, thread_name_prefix="annals-follow") as executor:
        try:
            while (event := await _run(executor, functools.partial(next, follower, None))) is not None:
                yield event
        finally:
            follower.close()
