# SPDX-License-Identifier: Apache-2.0
"""The client of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Literal, Self, Unpack

from .._errors import ConnectionError, ServiceUnavailableError
from .._options import CreateOptions, SandboxOptions
from .._protocol import Request, change, create_body, segment
from .._records import Json, text
from .._settings import Settings, resolve
from ._images import AsyncImages
from ._page import AsyncPage
from ._sandbox import GRACE_S, SETTLE_S, AsyncSandbox
from ._transport import AsyncTransport
from ._wait import bounded

FORGET_S = 10.0


class AsyncSandboxes:
    """`runtime.sandboxes`."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(
        self,
        *,
        wait: bool = True,
        keep: bool = False,
        wait_for_capacity: float | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[CreateOptions],
    ) -> AsyncSandbox:
        """Makes a sandbox and waits until it runs.

        Args:
            wait: False answers at once, while it starts.
            keep: at the end of the block it is stopped, not removed.
            wait_for_capacity: how many seconds to wait for room; by default the client's own.
            idempotency_key: a call with the same key and options gets the same sandbox.
            options: see CreateOptions.

        When it is cancelled (Ctrl-C), what it has made is removed, unless an
        `idempotency_key` makes it to be had again.

        Raises:
            TypeError: an option that there is not.
            ConflictError: `quota_exceeded`, `no_capacity` (no room in that time),
                `name_taken`, `budget_exceeded`.
            InvalidRequestError: with every wrong field in `issues`.
            ServiceUnavailableError: `start_failed`, when it ended while it started.
        """
        return await self._made(
            create_body(options), wait, keep, wait_for_capacity, idempotency_key
        )

    async def get_or_create(
        self,
        name: str,
        *,
        wait: bool = True,
        keep: bool = True,
        wait_for_capacity: float | None = None,
        **options: Unpack[SandboxOptions],
    ) -> AsyncSandbox:
        """The sandbox of that name if it can run, otherwise a new one (`info["reused"]`).

        At the end of a block it is stopped; `keep=False` removes it.
        """
        body = {**create_body(options), "name": name, "getOrCreate": True}
        return await self._made(body, wait, keep, wait_for_capacity, None)

    async def _made(
        self,
        body: Json,
        wait: bool,
        keep: bool,
        wait_for_capacity: float | None,
        idempotency_key: str | None,
    ) -> AsyncSandbox:
        request = change("POST", "/v1/sandboxes", body, key=idempotency_key)
        if wait:
            request.wait_s, request.timeout_s = SETTLE_S, SETTLE_S + GRACE_S
        try:
            info = await self._transport.create(request, wait_for_capacity)
        except Exception:
            raise
        except BaseException:
            # cancelled, or Ctrl-C: who asked for it will not know it
            if idempotency_key is None and "getOrCreate" not in body:
                await bounded(FORGET_S, lambda: self._forget(request))
            raise
        box = AsyncSandbox(self._transport, info, keep=keep)
        if not wait or box.state == "running":
            return box
        try:
            if box.state in ("starting", "resuming"):
                await box.wait_for("running")
            if box.state in ("stopping", "stopped"):
                raise ServiceUnavailableError(
                    f"Sandbox {box.id} ended while it started: {box.stop_reason}.",
                    code="start_failed",
                    details={"sandboxId": box.id, "stopReason": box.stop_reason},
                )
            if box.state == "starting":
                raise ConnectionError(
                    f"Sandbox {box.id} has not started in time.",
                    code="timeout",
                    details={"sandboxId": box.id},
                )
        except BaseException as error:
            try:
                await box.delete()
            except Exception as failure:  # noqa: BLE001 - the first error is what counts
                error.add_note(f"sandbox {box.id} could not be removed: {failure}")
            raise
        return box

    async def _forget(self, request: Request) -> None:
        """Removes what a create made, whose key names it; it may be made only now."""
        again = replace(request, wait_s=None, timeout_s=FORGET_S, once=True)
        await self.delete(text(await self._transport.json(again), "id"))

    async def get(self, sandbox_id: str) -> AsyncSandbox:
        """One by its id. Raises NotFoundError."""
        path = f"/v1/sandboxes/{segment(sandbox_id)}"
        return AsyncSandbox(
            self._transport, await self._transport.json(Request("GET", path)), keep=True
        )

    async def delete(self, sandbox_id: str) -> None:
        """Ends it and forgets it. Raises NotFoundError."""
        await self._transport.json(change("DELETE", f"/v1/sandboxes/{segment(sandbox_id)}"))

    async def list(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        state: Sequence[str] | None = None,
        name: str | None = None,
        include_stopped: bool = False,
        limit: int | None = None,
    ) -> AsyncPage[AsyncSandbox]:
        """Those that this key sees, the oldest first; all of `labels` must match.

        Iterating over the page fetches further ones, of `limit` (50, at most 100) entries.
        """

        async def fetch(cursor: str | None) -> Json:
            return await self._transport.json(
                Request(
                    "GET",
                    "/v1/sandboxes",
                    query={
                        "label": [f"{key}:{value}" for key, value in (labels or {}).items()],
                        "state": list(state) if state is not None else None,
                        "name": name,
                        "includeStopped": include_stopped or None,
                        "limit": limit,
                        "cursor": cursor,
                    },
                )
            )

        def make(info: Json) -> AsyncSandbox:
            return AsyncSandbox(self._transport, info, keep=True)

        return AsyncPage(fetch, make, await fetch(None))


class AsyncRuntime:
    """A client of one server; close it, or use it as a context manager.

    Args:
        api_key: by default from SEALMARK_API_KEY or RUNTIME_API_KEY.
        base_url: `http://...`, `https://...` or `unix:/path`; by default from
            SEALMARK_API_URL or RUNTIME_API_URL, or http://127.0.0.1:8080.
        auth_url: where people make keys; by default from SEALMARK_AUTH_URL or
            RUNTIME_AUTH_URL, or base_url.
        timeout: seconds for an answer; what is known to take longer is given longer.
        max_retries: how often a request is sent again.
        wait_for_capacity: seconds that a create waits for room.

    Raises AuthenticationError if there is no key.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        auth_url: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 4,
        wait_for_capacity: float = 0.0,
    ) -> None:
        self._transport = AsyncTransport(
            resolve(api_key, base_url, auth_url, timeout, max_retries, wait_for_capacity)
        )
        self.sandboxes = AsyncSandboxes(self._transport)
        self.images = AsyncImages(self._transport)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.settings.base_url!r})"

    @property
    def settings(self) -> Settings:
        """What it uses; the key is not in its repr."""
        return self._transport.settings

    async def me(self) -> Json:
        """Who the key is."""
        return await self._transport.json(Request("GET", "/v1/me"))

    async def limits(self) -> Json:
        """What may be had at once, and what is used of it."""
        return await self._transport.json(Request("GET", "/v1/limits"))

    async def usage(
        self,
        *,
        range: Literal["24h", "7d", "30d", "90d", "all"] | None = None,
        since: str | None = None,
        until: str | None = None,
        group_by: Literal["sandbox", "day", "key", "label"] | None = None,
        label: str | None = None,
    ) -> Json:
        """What was used, and what it cost, in the last `range` or between two times (ISO 8601).

        `group_by` sums it in `groups`; `label` names the label that "label" groups by.
        """
        query = {
            "range": range,
            "since": since,
            "until": until,
            "groupBy": group_by,
            "label": label,
        }
        return await self._transport.json(Request("GET", "/v1/usage", query={**query}))

    async def events(self, **query: str | int) -> Json:
        """What has happened, as `{"data": [...], "nextCursor": ...}`."""
        return await self._transport.json(Request("GET", "/v1/events", query={**query}))

    async def request(
        self, method: str, path: str, body: Json | None = None, **query: str | int | bool
    ) -> Json:
        """Any route of the API, for what has no method here."""
        make = Request if method == "GET" else change
        return await self._transport.json(make(method, path, body=body, query={**query}))

    async def close(self) -> None:
        """Closes the connections. Sandboxes go on."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
