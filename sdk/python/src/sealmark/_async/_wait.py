# SPDX-License-Identifier: Apache-2.0
"""How the asynchronous client waits (its blocking twin is written by hand)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Lock = asyncio.Lock


def owner() -> object:
    """Whose connections are made now."""
    return asyncio.get_running_loop()


def leave(previous: object) -> None:
    """Another loop takes over from this one, which must be over."""
    if isinstance(previous, asyncio.AbstractEventLoop) and not previous.is_closed():
        raise RuntimeError("a client serves one event loop; make another one for this loop")


@asynccontextmanager
async def if_free(lock: Lock) -> AsyncGenerator[bool, None]:
    """Holds the lock, unless somebody does: False."""
    if lock.locked():
        yield False
        return
    async with lock:
        yield True


def duplex(stream: Any) -> Any:
    """A connection of httpx that is read while it is written: as it is."""
    return stream


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Work on files beside the loop."""
    return await asyncio.to_thread(work, *args, **kwargs)


async def bounded(seconds: float, work: Callable[[], Awaitable[object]]) -> None:
    """Does it if it can be done in time; what goes wrong is not told."""
    try:
        async with asyncio.timeout(seconds):
            await work()
    except (Exception, asyncio.CancelledError):  # noqa: BLE001, S110
        pass


async def call(callback: Callable[[T], object], value: T) -> None:
    """A callback may be a coroutine function."""
    answer = callback(value)
    if isinstance(answer, Awaitable):
        await answer
