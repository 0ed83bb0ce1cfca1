# SPDX-License-Identifier: Apache-2.0
"""A terminal of a sandbox, over a WebSocket."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Literal, Self

from .._errors import ConnectionError, InvalidRequestError, error_of_object, invalid_answer
from .._frames import BINARY, TEXT
from .._protocol import Data, Request, data_bytes, parse_json, segment
from .._records import Json, optional_integer, optional_text, text
from ._socket import AsyncSocket
from ._transport import AsyncTransport

WRITE_BYTES = 65536
SIZE_MOST = 4096
COLS, ROWS = 80, 24


def check_size(cols: int, rows: int) -> None:
    for name, value in (("cols", cols), ("rows", rows)):
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= SIZE_MOST:
            raise InvalidRequestError(
                f"{name} is a number from 1 to {SIZE_MOST}.", code="invalid_request"
            )


class AsyncTerminal:
    """A terminal: `write` types, `recv` or iterating reads, until its process ends.

    At the end of the block, and by `close`, the shell that was started for it is hung up; a
    process that was there before goes on. A terminal that was cut off can be attached to again
    with `terminal(process_id=...)`.

    One task (one thread) may read while another writes. What is printed while nobody reads waits
    on the server, 1 MiB of it; a program that is typed a lot to and prints a lot needs both.
    """

    def __init__(self, socket: AsyncSocket, sandbox_id: str, process_id: str) -> None:
        self._socket = socket
        self.sandbox_id = sandbox_id
        self.process_id = process_id
        self.info: Json | None = None
        """The record of its process once that has ended."""

    @staticmethod
    async def _open(
        transport: AsyncTransport,
        sandbox_id: str,
        *,
        cols: int | None,
        rows: int | None,
        command: str | None,
        cwd: str | None,
        user: Literal["sandbox", "root"] | None,
        process_id: str | None,
    ) -> AsyncTerminal:
        """`sandbox.terminal`."""
        resized = cols is not None or rows is not None
        cols, rows = COLS if cols is None else cols, ROWS if rows is None else rows
        check_size(cols, rows)
        attach = process_id is not None
        request = Request(
            "GET",
            f"/v1/sandboxes/{segment(sandbox_id)}/terminal",
            query={
                "cols": None if attach else cols,
                "rows": None if attach else rows,
                "command": command,
                "cwd": cwd,
                "user": user,
                "processId": process_id,
            },
            once=True,
        )
        socket = await transport.socket(request)
        try:
            ready = await socket.receive(transport.settings.timeout)
            if ready is None or ready.kind != "text":
                raise invalid_answer("The terminal did not begin.")
            event = parse_json(ready.data)
            if event.get("type") == "error":
                raise error_of_object(event.get("error"), 0)
            if event.get("type") != "ready":
                raise invalid_answer("The terminal did not begin.")
            terminal = AsyncTerminal(socket, sandbox_id, text(event, "processId"))
            if attach and resized:
                await terminal.resize(cols, rows)
            return terminal
        except BaseException:
            await socket.close()
            raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}(process_id={self.process_id!r}, state={self.state!r})"

    @property
    def state(self) -> str:
        """running until its end was read; then exited, killed, timed_out or unknown."""
        return "running" if self.info is None else optional_text(self.info, "state") or "unknown"

    @property
    def exit_code(self) -> int | None:
        """None until its end was read, and when it was killed."""
        return None if self.info is None else optional_integer(self.info, "exitCode")

    async def write(self, data: Data) -> None:
        """Types; a line ends with a line end. Raises ConnectionError (`closed`) at its end."""
        rest = data_bytes(data)
        for begin in range(0, len(rest), WRITE_BYTES):
            await self._socket.send(BINARY, rest[begin : begin + WRITE_BYTES])

    async def resize(self, cols: int, rows: int) -> None:
        """Sets its size, in letters: 1 to 4096 each."""
        check_size(cols, rows)
        event = {"type": "resize", "cols": cols, "rows": rows}
        await self._socket.send(TEXT, json.dumps(event).encode())

    async def recv(self, *, timeout: float | None = None) -> bytes | None:
        """The next piece of what is printed; None once its process has ended, or after `close`.

        With `timeout`, ConnectionError (`timeout`) says that nothing came for so many seconds;
        then it can be read further.

        Raises ConnectionError when it was cut off, and what the server gives as the reason when
        it ends the terminal.
        """
        while self.info is None:
            message = await self._socket.receive(timeout)
            if self._socket.closed:
                return None
            if message is None or message.kind == "close":
                raise ConnectionError(
                    f"The terminal of process {self.process_id} was cut off.",
                    code="connection_error",
                    details={"processId": self.process_id},
                    hint="terminal(process_id=...) attaches to it again while it runs.",
                )
            if message.kind == "text":
                self._take(parse_json(message.data))
            elif message.data:
                return message.data
        return None

    def _take(self, event: Json) -> None:
        kind = text(event, "type")
        if kind == "error":
            raise error_of_object(event.get("error"), 0)
        if kind == "exit":
            optional_integer(event, "exitCode")
            optional_text(event, "state")
            self.info = event

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """What is printed, until its process ends."""
        while (piece := await self.recv()) is not None:
            yield piece

    async def close(self) -> None:
        """Hangs up, and closes the connection. May be called again, and while it is read."""
        await self._socket.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
