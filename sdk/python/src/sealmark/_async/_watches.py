# SPDX-License-Identifier: Apache-2.0
"""Watches: what changes in a folder of a sandbox."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Literal, Self

from .._errors import (
    ConflictError,
    ConnectionError,
    NotFoundError,
    SealmarkError,
    error_of_object,
)
from .._protocol import RemotePath, Request, change, pause, remote_path, segment, without_none
from .._records import FileEvent, Json, boolean, integer, optional_text, records, text
from ._processes import FOLLOW_S, passing
from ._transport import AsyncTransport
from ._wait import sleep

EventName = Literal["create", "write", "remove", "rename", "chmod"]

GRACE_S = 60.0
NOTICES = 100  # kept of those that say that events are missing


class AsyncWatch:
    """A watch that runs in the sandbox, whoever reads it; as a context manager it ends with the
    block.

    Iterating gives each event once, as it happens, until the watch ends (`exit_reason`) or its
    sandbox is paused (`paused`): then iterating again goes on where it was. The newest MiB of
    events is kept for a reader who is late.
    """

    def __init__(self, transport: AsyncTransport, sandbox_id: str, info: Json) -> None:
        self._transport = transport
        self.sandbox_id = sandbox_id
        self.info = info
        """The record, as it was when the watch began or was listed."""
        self.id = text(info, "id")
        self.cursor = 0
        """Where the next read begins."""
        self.exit_reason: str | None = None
        """stopped, timeout, root-removed or exited; None until its end was read."""
        self.paused = False
        """Whether iterating ended because the sandbox is paused."""
        self.notices: list[Json] = []
        """Why events are missing, the newest 100: `k` is overflow, lost or limit (folders)."""
        self._pending: deque[FileEvent] = deque()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, path={self.path!r})"

    @property
    def path(self) -> str | None:
        return optional_text(self.info, "path")

    @property
    def incomplete(self) -> bool:
        """Whether events are missing: look at the folder itself."""
        return bool(self.notices)

    def _path(self, suffix: str = "") -> str:
        base = f"/v1/sandboxes/{segment(self.sandbox_id)}/files/watches"
        return f"{base}/{segment(self.id)}{suffix}"

    async def get_new_events(self, wait_ms: int = 0) -> list[FileEvent]:
        """What there is that was not read; waits for some, at most so long (60,000 ms)."""
        if not self._pending and self.exit_reason is None:
            answer = await self._transport.json(
                Request(
                    "GET",
                    self._path("/events"),
                    query={"cursor": self.cursor, "waitMs": wait_ms},
                    timeout_s=wait_ms / 1000 + GRACE_S,
                )
            )
            self._take_events(answer.get("events"), integer(answer, "nextCursor"))
            lost = integer(answer, "lostBytes")
            if lost:
                self._notice({"k": "lost", "bytes": lost})
            for notice in records(answer.get("notices"), "the notices"):
                self._take_notice(notice)
            if boolean(answer, "ended") and self.exit_reason is None:
                self.exit_reason = "exited"
        out = list(self._pending)
        self._pending.clear()
        return out

    def _take_events(self, events: object, cursor: int) -> None:
        self._pending.extend(FileEvent.of(event) for event in records(events, "the events"))
        self.cursor = max(self.cursor, cursor)

    def _take_notice(self, notice: Json) -> None:
        if text(notice, "k") == "end":
            self.exit_reason = text(notice, "reason")
        else:
            self._notice(notice)

    def _notice(self, notice: Json) -> None:
        self.notices.append(notice)
        del self.notices[:-NOTICES]

    def _take_line(self, line: Json) -> str:
        """A line of the stream; its kind."""
        kind = text(line, "k")
        if kind == "failure":
            raise error_of_object(line, 0)
        cursor = integer(line, "cursor")
        if kind == "events":
            self._take_events(line.get("events"), cursor)
        elif kind in ("overflow", "lost", "limit", "end"):
            self._take_notice(line)
        self.cursor = max(self.cursor, cursor)
        self.paused = kind == "paused"
        return kind

    async def events(self) -> AsyncGenerator[FileEvent, None]:
        """The same as iterating.

        Raises NotFoundError or ConflictError when the sandbox has ended, and ConnectionError
        when it cannot be read further.
        """
        fruitless = 0
        self.paused = False
        while True:
            while self._pending:
                yield self._pending.popleft()
            if self.exit_reason is not None:
                return
            before, failure, goes_on = self.cursor, None, False
            request = Request(
                "GET",
                self._path("/events"),
                query={"cursor": self.cursor, "follow": True},
                accept="application/x-ndjson",
                timeout_s=FOLLOW_S,
            )
            try:
                async with aclosing(self._transport.lines(request)) as lines:
                    async for line in lines:
                        goes_on = self._take_line(line) == "continue"
                        while self._pending:
                            yield self._pending.popleft()
                        if self.exit_reason is not None or self.paused:
                            return
                        if goes_on:
                            break
            except SealmarkError as error:
                if not passing(error):
                    raise
                failure = error
            if goes_on or self.cursor > before:
                fruitless = 0
                continue
            if fruitless >= self._transport.settings.max_retries:
                raise failure or ConnectionError(
                    f"The events of watch {self.id} end before the watch does.",
                    code="connection_error",
                    hint="Iterate again, if the server still runs.",
                )
            await sleep(pause(failure or SealmarkError(""), fruitless) or 0)
            fruitless += 1

    async def __aiter__(self) -> AsyncGenerator[FileEvent, None]:
        async with aclosing(self.events()) as events:
            async for event in events:
                yield event

    async def stop(self) -> bool:
        """Ends it; what has happened before can still be read. False: it had ended."""
        answer = await self._transport.json(change("DELETE", self._path()))
        return boolean(answer, "stopped")

    async def close(self) -> None:
        """What the end of the block does: ends it, if it and its sandbox are still there."""
        if self.exit_reason is not None:
            return
        try:
            await self.stop()
        except (NotFoundError, ConflictError):
            pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except Exception as failure:
            if error is None:
                raise
            error.add_note(f"watch {self.id} could not be ended: {failure}")


class AsyncWatches:
    """`sandbox.files.watches`: at most 16 run in a sandbox."""

    def __init__(self, transport: AsyncTransport, sandbox_id: str) -> None:
        self._transport = transport
        self._sandbox_id = sandbox_id

    def _path(self) -> str:
        return f"/v1/sandboxes/{segment(self._sandbox_id)}/files/watches"

    async def start(
        self,
        path: RemotePath,
        *,
        recursive: bool = False,
        events: Sequence[EventName] | None = None,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        batch_ms: int | None = None,
        timeout_ms: int | None = None,
        max_watches: int | None = None,
        id: str | None = None,
    ) -> AsyncWatch:
        """Begins one; see `files.watch`."""
        for name, words in (("events", events), ("include", include), ("exclude", exclude)):
            if isinstance(words, str):
                raise TypeError(f"{name} is a list of texts, not one text")
        body = {
            "path": remote_path(path),
            "recursive": recursive,
            "events": list(events) if events is not None else None,
            "include": list(include) if include is not None else None,
            "exclude": list(exclude) if exclude is not None else None,
            "batchMs": batch_ms,
            "timeoutMs": timeout_ms,
            "maxWatches": max_watches,
            "id": id,
        }
        info = await self._transport.json(change("POST", self._path(), without_none(body)))
        return AsyncWatch(self._transport, self._sandbox_id, info)

    async def list(self) -> list[AsyncWatch]:
        """Those that run. One of them is read from the first event that is kept."""
        answer = await self._transport.json(Request("GET", self._path()))
        found = records(answer.get("data"), "the watches")
        return [AsyncWatch(self._transport, self._sandbox_id, info) for info in found]

    async def stop(self, watch_id: str) -> bool:
        """Ends one by its id. False: it had ended. Raises NotFoundError."""
        path = f"{self._path()}/{segment(watch_id)}"
        return boolean(await self._transport.json(change("DELETE", path)), "stopped")
