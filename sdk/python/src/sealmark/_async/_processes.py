# SPDX-License-Identifier: Apache-2.0
"""Processes in the background of a sandbox."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing

from .._errors import ConnectionError, SealmarkError, invalid_answer
from .._protocol import PIECE_BYTES, Data, Request, change, data_bytes, pause, segment
from .._records import (
    Collector,
    CommandResult,
    Continues,
    Event,
    Exited,
    Json,
    OutputReader,
    event_of,
    integer,
    optional_integer,
    optional_text,
    text,
)
from ._transport import AsyncTransport
from ._wait import Lock, sleep

FOLLOW_S = 180.0  # of silence, after which the connection is made anew
WRITE_BYTES = PIECE_BYTES // 4


def passing(error: SealmarkError) -> bool:
    """A stream that broke off, and can be read further."""
    return error.retryable or (
        isinstance(error, ConnectionError) and error.code != "invalid_answer"
    )


class AsyncProcess:
    """A process that runs on by itself: its output from any point, its input, its end."""

    def __init__(self, transport: AsyncTransport, sandbox_id: str, info: Json) -> None:
        self._transport = transport
        self.sandbox_id = sandbox_id
        self.info = info
        self._written = optional_integer(info, "stdinOffset") or 0
        self._writing = Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, state={self.state!r})"

    @property
    def id(self) -> str:
        return text(self.info, "id")

    @property
    def state(self) -> str | None:
        """running, exited, killed, timed_out or unknown, when it was last asked for."""
        return optional_text(self.info, "state")

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and when it was killed."""
        return optional_integer(self.info, "exitCode")

    def _path(self, suffix: str = "") -> str:
        return f"/v1/sandboxes/{segment(self.sandbox_id)}/processes/{segment(self.id)}{suffix}"

    async def refresh(self) -> AsyncProcess:
        """Asks for its state."""
        self.info = await self._transport.json(Request("GET", self._path()))
        return self

    async def output(self, cursor: int = 0) -> AsyncGenerator[Event, None]:
        """Its output from byte `cursor` of both streams on, until it ends.

        A stream that breaks off is read further from where it was; what the sandbox no longer
        has is told as `Truncated`. Raises ConnectionError when it cannot be read further.
        """
        reader = OutputReader(cursor)
        fruitless = 0
        while True:
            before, failure, goes_on = reader.cursor, None, False
            request = Request(
                "GET",
                self._path("/output"),
                query={"cursor": reader.cursor, "follow": True},
                accept="application/x-ndjson",
                timeout_s=FOLLOW_S,
            )
            try:
                async with aclosing(self._transport.lines(request)) as lines:
                    async for line in lines:
                        event = event_of(line)
                        if isinstance(event, Continues):
                            reader.cursor = max(reader.cursor, event.cursor)
                            goes_on = True
                            break
                        for taken in reader.take(event) if event else []:
                            yield taken
                        if isinstance(event, Exited):
                            return
            except SealmarkError as error:
                if not passing(error):
                    raise
                failure = error
            if goes_on or reader.cursor > before:
                fruitless = 0
                continue
            if fruitless >= self._transport.settings.max_retries:
                raise failure or ConnectionError(
                    f"The output of process {self.id} ends before the process does.",
                    code="connection_error",
                    hint="Read it further with output(cursor), if the server still runs.",
                )
            await sleep(pause(failure or SealmarkError(""), fruitless) or 0)
            fruitless += 1

    async def wait(self) -> CommandResult:
        """Its result, with its output from the beginning, when it has ended."""
        collector = Collector(self.id)
        async with aclosing(self.output()) as events:
            async for event in events:
                collector.take(event)
        result = collector.result()
        end = collector.end
        self.info = {
            **self.info,
            "state": end.state if end else None,
            "exitCode": result.exit_code,
        }
        return result

    async def write(self, data: Data, *, eof: bool = False) -> None:
        """Writes to its input (spawned with `stdin="pipe"` or a terminal); `eof` ends it.

        The server counts what it has taken, so that a write that is sent again is not typed
        twice. While the process does not read, this waits.
        """
        rest = data_bytes(data)
        async with self._writing:
            waits = 0
            while True:
                piece = rest[:WRITE_BYTES]
                answer = await self._transport.json(
                    change(
                        "POST",
                        self._path(":write"),
                        {
                            "base64": base64.b64encode(piece).decode(),
                            "offset": self._written,
                            "eof": eof and len(piece) == len(rest),
                        },
                    )
                )
                taken = integer(answer, "offset") - self._written
                if not 0 <= taken <= len(piece):
                    raise invalid_answer("The process took more or less input than there is.")
                self._written += taken
                rest = rest[taken:]
                if not rest:
                    return
                if taken:
                    waits = 0
                else:
                    await sleep(pause(SealmarkError(""), waits) or 0)
                    waits += 1

    async def signal(self, name: str) -> None:
        """Sends a signal, as "SIGINT"."""
        await self._transport.json(change("POST", self._path(":signal"), {"signal": name}))

    async def kill(self) -> None:
        """Sends SIGKILL."""
        await self.signal("SIGKILL")

    async def resize(self, cols: int, rows: int) -> None:
        """Sets the size of its terminal, in letters."""
        await self._transport.json(
            change("POST", self._path(":resize"), {"cols": cols, "rows": rows})
        )
