# SPDX-License-Identifier: Apache-2.0
"""Terminals: frames in any pieces, and what threads and tasks do to each other."""

import asyncio
import threading
import time
from collections import deque
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripting import Scripted

import sealmark
from sealmark._frames import BINARY, Frames, Message, frame, masked
from sealmark._sync import _socket

READY = {"json": {"type": "ready", "processId": "p1"}}
GOODBYE: list[dict[str, Any]] = [{"hears": {"close": 1000}}, {"close": 1000}]


# the same examples each time, however long they take
STEADY = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=300,
    suppress_health_check=list(HealthCheck),
)


def begin(scripted: Scripted, *socket: dict[str, Any]) -> None:
    query = {"cols": "80", "rows": "24"}
    request = {"method": "GET", "path": "/v1/sandboxes/b1/terminal", "query": query}
    scripted.begin([{"request": request, "answer": {"socket": [READY, *socket]}}])


def until(holds: Any, what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.01)


def read(data: bytes, cuts: list[int]) -> tuple[list[Message], str | None]:
    """The messages of these bytes in these pieces, and the code of the error after them."""
    frames, out = Frames(), deque[Message]()
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    try:
        for begin, end in pairwise(edges):
            out.extend(frames.feed(data[begin:end]))
    except sealmark.ConnectionError as error:
        return list(out), error.code
    return list(out), None


SERVER_FRAMES = st.lists(
    st.one_of(
        st.builds(
            lambda head, body: bytes([head, len(body)]) + body,
            st.sampled_from([0x00, 0x01, 0x02, 0x80, 0x81, 0x82, 0x88, 0x89, 0x8A]),
            st.binary(max_size=30),
        ),
        st.binary(max_size=12),
    ),
    max_size=8,
).map(b"".join)


@STEADY
@given(SERVER_FRAMES, st.lists(st.integers(0, 10_000), max_size=12))
def test_what_frames_say_does_not_depend_on_their_pieces(data: bytes, cuts: list[int]) -> None:
    assert read(data, cuts) == read(data, []) == read(data, list(range(len(data))))


@STEADY
@given(st.binary(max_size=70_000), st.binary(min_size=4, max_size=4))
def test_a_mask_is_undone_by_itself(data: bytes, key: bytes) -> None:
    assert masked(masked(data, key), key) == data
    assert masked(data, b"\0" * 4) == data
    sent = frame(BINARY, data)
    assert len(sent) - len(data) == (6 if len(data) < 126 else 8 if len(data) < 65536 else 14)


def test_a_thread_reads_while_another_writes_and_closes(scripted: Scripted) -> None:
    begin(scripted, {"bytes": "a"}, {"hears": {"bytes": "x"}}, {"bytes": "b"}, *GOODBYE)
    seen: list[bytes] = []
    with sealmark.Runtime("k", scripted.url) as runtime:
        box = sealmark.Sandbox(runtime._transport, {"id": "b1", "state": "running"})
        terminal = box.terminal()
        reader = threading.Thread(target=lambda: seen.extend(terminal))
        reader.start()
        until(lambda: seen == [b"a"], "the first piece")
        terminal.write("x")
        until(lambda: seen == [b"a", b"b"], "the second piece")
        terminal.close()
        reader.join(60)
        assert not reader.is_alive(), "the reader of a closed terminal waits on"
    scripted.check()


def test_a_reader_of_a_closed_terminal_does_not_wait_for_the_server(scripted: Scripted) -> None:
    """The server never answers the goodbye; the socket is shut down below the reader."""
    begin(scripted, {"hears": {"close": 1000}}, {"hears": {"bytes": "never"}})
    with sealmark.Runtime("k", scripted.url) as runtime:
        box = sealmark.Sandbox(runtime._transport, {"id": "b1", "state": "running"})
        terminal = box.terminal()
        ended = threading.Event()

        def follow() -> None:
            assert terminal.recv() is None
            ended.set()

        reader = threading.Thread(target=follow)
        reader.start()
        until(lambda: terminal._socket._reading, "the reader")
        terminal.close()
        assert ended.wait(60), "the reader of a closed terminal waits on"
        reader.join(60)


def test_a_task_that_is_cancelled_while_it_reads_loses_nothing(scripted: Scripted) -> None:
    begin(scripted, {"hears": {"bytes": "x"}}, {"bytes": "late"}, *GOODBYE)

    async def main() -> None:
        async with sealmark.AsyncRuntime("k", scripted.url) as runtime:
            box = sealmark.AsyncSandbox(runtime._transport, {"id": "b1", "state": "running"})
            async with await box.terminal() as terminal:
                task = asyncio.create_task(terminal.recv())
                async with asyncio.timeout(60):
                    while not terminal._socket._reading:
                        await asyncio.sleep(0.01)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await terminal.write("x")
                assert await terminal.recv(timeout=60) == b"late"

    asyncio.run(main())
    scripted.check()


def test_tasks_read_and_close_at_once(scripted: Scripted) -> None:
    begin(scripted, *GOODBYE)

    async def main() -> None:
        async with sealmark.AsyncRuntime("k", scripted.url) as runtime:
            box = sealmark.AsyncSandbox(runtime._transport, {"id": "b1", "state": "running"})
            terminal = await box.terminal()
            task = asyncio.create_task(terminal.recv())
            async with asyncio.timeout(60):
                while not terminal._socket._reading:
                    await asyncio.sleep(0.01)
                await terminal.close()
                assert await task is None

    asyncio.run(main())
    scripted.check()


def test_an_error_in_the_block_hangs_up_and_is_what_is_seen(scripted: Scripted) -> None:
    begin(scripted, *GOODBYE)
    with sealmark.Runtime("k", scripted.url) as runtime:
        box = sealmark.Sandbox(runtime._transport, {"id": "b1", "state": "running"})
        with pytest.raises(ZeroDivisionError), box.terminal():
            raise ZeroDivisionError
    scripted.check()


class Pinging:
    """The connection of a server with nothing to say for a thousand half minutes."""

    def get_extra_info(self, info: str) -> None:
        """It has no socket."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pings = 1000
        self.waits: set[float] = set()
        self.pongs = 0

    def read(self, most: int, timeout: float) -> bytes:
        self.now += 30
        self.waits.add(timeout)
        self.pings -= 1
        return b"\x89\x01p" if self.pings >= 0 else b"\x82\x01x"

    def write(self, data: bytes, timeout: float) -> None:
        self.pongs += 1


def test_a_server_that_pings_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that nobody types to for an hour is not given up."""
    stream = Pinging()
    monkeypatch.setattr(_socket, "time", SimpleNamespace(monotonic=lambda: stream.now))
    socket = _socket.Socket(httpx.Response(101, extensions={"network_stream": stream}), 60)
    assert socket.receive(None) == Message("binary", b"x")
    assert (stream.pongs, stream.waits) == (1000, {_socket.SILENCE_S})
    # a wait that is limited is over in its time, pings or no pings
    stream.pings = 1000
    with pytest.raises(sealmark.ConnectionError) as late:
        socket.receive(90)
    assert late.value.code == "timeout"
    assert stream.pings == 997
