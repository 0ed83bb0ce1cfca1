# SPDX-License-Identifier: Apache-2.0
"""How the blocking client waits (the twin of _async/_wait.py, written by hand)."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import httpcore

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


# epoll would never wake from a socket that another thread shuts down and closes
_Selector: type[selectors.BaseSelector] = getattr(
    selectors, "PollSelector", selectors.SelectSelector
)


class _Duplex:
    """A connection of httpx that one thread reads while another writes.

    A socket has one timeout for both, and TLS does one thing at a time: two threads in one TLS
    connection can take what is left over of each other's errors for its end. So nothing waits in
    it: each call is one step under a lock, and waiting is for the socket, outside.
    """

    def __init__(self, stream: Any, sock: socket.socket) -> None:
        self._stream = stream  # which may have bytes that came with the answer's head
        self._socket = sock
        self._lock = threading.Lock()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def read(self, most: int, timeout: float) -> bytes:
        def step() -> bytes:
            try:
                data: bytes = self._stream.read(most, 0)
                return data
            except httpcore.ReadError as error:
                raise error.__cause__ or error from None

        return self._repeat(step, selectors.EVENT_READ, timeout, httpcore.ReadTimeout)

    def write(self, data: bytes, timeout: float) -> None:
        left = memoryview(data)

        def step() -> int:
            self._socket.setblocking(False)
            return self._socket.send(left)

        while left:
            sent = self._repeat(step, selectors.EVENT_WRITE, timeout, httpcore.WriteTimeout)
            left = left[sent:]

    def _repeat(
        self, step: Callable[[], T], event: int, timeout: float, late: type[Exception]
    ) -> T:
        deadline = time.monotonic() + timeout
        while True:
            try:
                with self._lock:
                    return step()
            except BlockingIOError:
                wanted = event
            except ssl.SSLWantReadError:
                wanted = selectors.EVENT_READ
            except ssl.SSLWantWriteError:
                wanted = selectors.EVENT_WRITE
            with _Selector() as selector:
                try:
                    selector.register(self._socket, wanted)
                except ValueError as error:  # it was closed by another thread just now
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from error
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise late("nothing came or went in time")


def duplex(stream: Any) -> Any:
    """A connection of httpx that one thread may read while another writes."""
    sock = stream.get_extra_info("socket")
    # TLS within the TLS of a proxy is httpx's own affair
    inner = isinstance(stream.get_extra_info("ssl_object"), ssl.SSLObject)
    return stream if sock is None or inner else _Duplex(stream, sock)


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
