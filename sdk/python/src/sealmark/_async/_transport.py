# SPDX-License-Identifier: Apache-2.0
"""Sends requests, again where that is safe, and reads answers within limits."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import NoReturn, TypeVar

import httpx

from .._errors import CAPACITY_CODES, ConnectionError, SealmarkError, error_of_answer
from .._frames import Handshake
from .._protocol import (
    ANSWER_BYTES,
    ERROR_BYTES,
    Lines,
    Request,
    capacity_delay,
    parse_json,
    retry_delay,
)
from .._records import Json
from .._settings import Settings
from ._socket import AsyncSocket
from ._wait import leave, owner, sleep

T = TypeVar("T")

CONNECT_S = 10.0
CONNECTIONS = 128
# those of a request that never left
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)


def _connection_error(error: Exception, settings: Settings) -> ConnectionError:
    late = isinstance(error, httpx.TimeoutException)
    sent = not isinstance(error, NOT_SENT)
    if late:
        what = "did not answer in time"
    elif sent:
        what = "broke off the connection before its answer was whole"
    else:
        what = "could not be reached"
    # only of a connection that was not made: it says why, as "Connection refused"
    why = type(error).__name__ if sent else str(error) or type(error).__name__
    return ConnectionError(
        f"The server at {settings.socket_path or settings.base_url} {what} ({why}).",
        code="timeout" if late else "connection_error",
        hint="Does it run, and is this its address (SEALMARK_API_URL)?",
        details={"sent": sent},
        retryable=True,
    )


def _too_late(seconds: float) -> ConnectionError:
    return ConnectionError(
        f"The answer was not whole after {seconds:g} seconds.",
        code="timeout",
        details={"sent": True},
        retryable=True,
    )


class AsyncTransport:
    """One server, one key, one pool of connections."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._owner: object = None
        self._client = self._make()

    def _make(self) -> httpx.AsyncClient:
        path = self.settings.socket_path
        return httpx.AsyncClient(
            transport=None if path is None else httpx.AsyncHTTPTransport(uds=path),
            follow_redirects=False,  # the key goes to this server and to no other
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        )

    def _connections(self) -> httpx.AsyncClient:
        """Those made here: a connection does not serve two processes, or two loops."""
        here = owner()
        if self._owner is None or self._client.is_closed:
            self._owner = here
        elif self._owner != here:
            leave(self._owner)
            self._owner, self._client = here, self._make()
        return self._client

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client of a server cannot be pickled; make one in each process")

    async def close(self) -> None:
        await self._client.aclose()

    async def json(self, request: Request) -> Json:
        """The object that the server answers."""

        async def once() -> Json:
            return parse_json(await self._whole(request, ANSWER_BYTES))

        return await self._again(request, once)

    async def content(self, request: Request, most: int) -> bytes:
        """A body of at most `most` bytes."""

        async def once() -> bytes:
            return await self._whole(request, most)

        return await self._again(request, once)

    async def pieces(self, request: Request) -> AsyncGenerator[bytes, None]:
        """A body of any length, as it comes; sent again only until it begins."""

        async def once() -> httpx.Response:
            return await self._open(request, self._deadline(request))

        response = await self._again(request, once)
        stream = response.aiter_raw()
        seconds = self._deadline(request)[1]
        waited = 0.0
        try:
            while True:
                before = time.monotonic()
                piece = await anext(stream, None)
                # only the server's time: a reader may take as long as it likes
                waited += time.monotonic() - before
                if piece is None:
                    return
                if request.ends and waited > seconds:
                    raise _too_late(seconds)
                yield piece
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _connection_error(error, self.settings) from error
        finally:
            await response.aclose()

    async def lines(self, request: Request) -> AsyncGenerator[Json, None]:
        """The objects of a stream of JSON lines, as they come."""
        lines = Lines()
        async with aclosing(self.pieces(request)) as pieces:
            async for piece in pieces:
                for line in lines.feed(piece):
                    yield line
        for line in lines.finish():
            yield line

    async def socket(self, request: Request) -> AsyncSocket:
        """A WebSocket; sent again only if the server refused it, or was not reached."""

        async def once() -> AsyncSocket:
            handshake = Handshake()
            request.upgrade = handshake.headers()
            response = await self._open(request, self._deadline(request))
            try:
                handshake.check(response.status_code, response.headers)
                return AsyncSocket(response, self.settings.timeout)
            except BaseException:
                await response.aclose()
                raise

        return await self._again(request, once)

    async def create(self, request: Request, wait_s: float | None) -> Json:
        """The same, and while there is no room it asks again until there is."""
        limit = self.settings.wait_for_capacity if wait_s is None else wait_s
        deadline = time.monotonic() + limit
        attempt = 0
        while True:
            try:
                return await self.json(request)
            except SealmarkError as error:
                left = deadline - time.monotonic()
                if error.code not in CAPACITY_CODES or left <= 0:
                    raise
                await sleep(capacity_delay(error, attempt, left))
                attempt += 1

    async def _again(self, request: Request, once: Callable[[], Awaitable[T]]) -> T:
        """Sends it until it is answered or must not be sent again."""
        attempt = 0
        while True:
            try:
                return await once()
            except SealmarkError as error:
                delay = retry_delay(request, error, attempt, self.settings.max_retries)
                if delay is None:
                    raise
            await sleep(delay)
            attempt += 1

    def _deadline(self, request: Request) -> tuple[float, float]:
        """When the answer must be whole, and how many seconds that is from now."""
        seconds = request.timeout_s or self.settings.timeout
        return time.monotonic() + seconds, seconds

    async def _open(self, request: Request, deadline: tuple[float, float]) -> httpx.Response:
        """Sends it once; an answer that is an error is raised. The caller closes the other."""
        seconds = deadline[1]
        client = self._connections()
        try:
            response = await client.send(
                client.build_request(
                    request.method,
                    self.settings.base_url + request.target(),
                    content=request.payload(),
                    headers=request.headers(self.settings.api_key),
                    timeout=httpx.Timeout(seconds, connect=min(seconds, CONNECT_S), pool=None),
                ),
                stream=True,
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _connection_error(error, self.settings) from error
        if 200 <= response.status_code < 300:
            return response
        if response.status_code == 101 and request.upgrade is not None:
            return response
        body = await self._read(response, ERROR_BYTES, deadline)
        raise error_of_answer(response.status_code, response.headers, body, time.time())

    async def _whole(self, request: Request, most: int) -> bytes:
        deadline = self._deadline(request)
        return await self._read(await self._open(request, deadline), most, deadline)

    async def _read(
        self, response: httpx.Response, most: int, deadline: tuple[float, float]
    ) -> bytes:
        """The whole body. A server that sends it a byte at a time does not hold us for ever."""
        out = bytearray()
        try:
            async for piece in response.aiter_raw():
                out += piece
                if len(out) > most:
                    raise ConnectionError(
                        f"The answer is longer than {most} bytes.",
                        code="answer_too_large",
                        details={"sent": True},
                    )
                if time.monotonic() > deadline[0]:
                    raise _too_late(deadline[1])
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _connection_error(error, self.settings) from error
        finally:
            await response.aclose()
        return bytes(out)
