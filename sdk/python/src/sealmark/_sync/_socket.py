# SPDX-License-Identifier: Apache-2.0
"""A WebSocket on a connection that httpx made."""

from __future__ import annotations

import socket
import time
from collections import deque
from typing import Any

import httpcore
import httpx

from .._errors import ConnectionError, invalid_answer
from .._frames import PONG, Frames, Message, frame, goodbye
from ._wait import Lock, duplex, if_free

READ_BYTES = 65536
LEAST_S = 0.001  # no time at all would be a socket that never waits
SILENCE_S = 180.0  # a server that is there sends a ping every half minute
GOODBYE_S = 5.0  # how long the other side may take to say it too


class Socket:
    """Messages in and out: one task may read while others write.

    A ping is answered by whoever reads. A write that breaks off leaves half a frame, after which
    nothing can be said any more.
    """

    def __init__(self, response: httpx.Response, timeout: float) -> None:
        self._response = response
        self._timeout = timeout
        stream: Any = response.extensions.get("network_stream")
        if stream is None:
            raise invalid_answer("The connection cannot become a WebSocket.")
        self._stream = duplex(stream)
        self._frames = Frames()
        self._messages: deque[Message] = deque()
        self._reading = False
        self._writing = Lock()
        self._pongs: deque[bytes] = deque(maxlen=1)  # only the newest ping wants an answer
        self._failure: ConnectionError | None = None  # what it sent is no WebSocket's
        self._broken = False
        self._parted = False  # the other side has said goodbye, or is gone
        self.closed = False

    def receive(self, timeout: float | None) -> Message | None:
        """The next text, piece of bytes or goodbye; None when there is nothing more to come.

        Raises ConnectionError: `timeout` after so many seconds, and it can be read further.
        Without a timeout it waits as long as there is a sign of life.
        """
        return None if self.closed else self._next(timeout)

    def _next(self, timeout: float | None) -> Message | None:
        patience = SILENCE_S if timeout is None else timeout
        deadline = time.monotonic() + patience
        left = max(patience, LEAST_S)
        while True:
            while self._messages:
                message = self._messages.popleft()
                if message.kind == "ping":
                    self._answer(message.data)
                elif message.kind != "pong":
                    self._parted = self._parted or message.kind == "close"
                    return message
            if self._failure is not None:
                raise self._failure
            if self._parted:
                return None
            if left <= 0:
                raise _too_late(patience)
            data = self._read(left, patience)
            if not data:
                self._parted = True
                return None
            try:
                self._messages.extend(self._frames.feed(data))
            except ConnectionError as error:
                self._failure = error
            left = SILENCE_S if timeout is None else deadline - time.monotonic()

    def _read(self, left: float, timeout: float) -> bytes:
        self._reading = True
        try:
            data: bytes = self._stream.read(READ_BYTES, left)
            return data
        except httpcore.TimeoutException as error:
            raise _too_late(timeout) from error
        except (httpcore.NetworkError, OSError) as error:
            if self.closed:
                return b""
            raise _broken_off(error) from error
        finally:
            self._reading = False

    def send(self, opcode: int, data: bytes) -> None:
        """One message. Raises ConnectionError."""
        with self._writing:
            if self.closed:
                raise ConnectionError("The terminal is closed.", code="closed")
            self._write(frame(opcode, data))
        self._flush()

    def _answer(self, data: bytes) -> None:
        self._pongs.append(data)
        try:
            self._flush()
        except ConnectionError:
            pass  # whoever reads sees the end of it, and what came before

    def _flush(self) -> None:
        """Answers pings, unless somebody writes: who reads must not wait for that."""
        while self._pongs:
            with if_free(self._writing) as free:
                if not free:
                    return
                if self._pongs and not self.closed:
                    self._write(frame(PONG, self._pongs.popleft()))

    def _write(self, data: bytes) -> None:
        if self._broken:
            raise ConnectionError("The connection of the terminal broke off.", code="closed")
        self._broken = True  # until all of it is written
        try:
            self._stream.write(data, self._timeout)
        except httpcore.TimeoutException as error:
            raise _too_late(self._timeout) from error
        except (httpcore.NetworkError, OSError) as error:
            raise _broken_off(error) from error
        self._broken = False

    def close(self) -> None:
        """Says goodbye, waits a little for the other side to, and closes the connection."""
        if self.closed:
            return
        self.closed = True
        try:
            self._part()
        finally:
            self._wake_reader()
            self._response.close()

    def _part(self) -> None:
        deadline = time.monotonic() + GOODBYE_S
        try:
            with if_free(self._writing) as free:
                if not free:
                    return
                self._write(goodbye())
            # who reads elsewhere would take the answer
            while not self._reading and (left := deadline - time.monotonic()) > 0:
                message = self._next(left)
                if message is None or message.kind == "close":
                    return
        except ConnectionError:
            pass  # it is gone already, or does not answer

    def _wake_reader(self) -> None:
        """A thread that reads would not see that the socket is closed."""
        raw = self._stream.get_extra_info("socket")
        try:
            if self._reading and raw is not None:
                raw.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is gone already


def _too_late(seconds: float) -> ConnectionError:
    return ConnectionError(
        f"The terminal was silent for {seconds:g} seconds.",
        code="timeout",
        details={"sent": True},
    )


def _broken_off(error: Exception) -> ConnectionError:
    return ConnectionError(
        f"The connection of the terminal broke off ({type(error).__name__}).",
        code="connection_error",
        details={"sent": True},
    )
