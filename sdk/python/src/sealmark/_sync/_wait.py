# SPDX-License-Identifier: Apache-2.0
"""How the blocking client waits (the twin of _async/_wait.py, written by hand)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Lock = threading.Lock


def owner() -> object:
    """Whose connections are made now."""
    return os.getpid()


def leave(previous: object) -> None:
    """A process that was forked takes over; the other one's connections stay its own."""


@contextmanager
def if_free(lock: threading.Lock) -> Generator[bool, None, None]:
    """Holds the lock, unless somebody does: False."""
    taken = lock.acquire(blocking=False)
    try:
        yield taken
    finally:
        if taken:
            lock.release()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Where there is no loop to be held up it is done here."""
    return work(*args, **kwargs)


def bounded(seconds: float, work: Callable[[], object]) -> None:
    """Does it if it can be done; what goes wrong is not told. The work bounds its own time."""
    try:
        work()
    except Exception:  # noqa: BLE001, S110
        pass


def call(callback: Callable[[T], object], value: T) -> None:
    callback(value)
