# SPDX-License-Identifier: Apache-2.0
"""Requests before they are sent, answers after they have come, and when to send again.

Theory of operation: everything here is plain computation, so that the blocking and the
asynchronous client share it. A change bears an Idempotency-Key, made once for a call; all
attempts of the call send the same key and the same body, so that a change whose answer was
lost is not made twice.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import PurePath, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode
from uuid import uuid4

from ._errors import InvalidRequestError, SealmarkError, invalid_answer
from ._options import CreateOptions
from ._records import Json
from ._version import VERSION

PIECE_BYTES = 1 << 20  # the most that one request may carry of a file or an archive
ANSWER_BYTES = 64 << 20  # a longer JSON answer is no answer
LINE_BYTES = 16 << 20  # of a stream
ERROR_BYTES = 1 << 20

BACKOFF_FIRST_S = 0.1
BACKOFF_MOST_S = 5.0
NAMED_MOST_S = 30.0  # a server that names a longer wait is asked again by the caller, not by us

RemotePath: TypeAlias = str | PurePosixPath
Word: TypeAlias = str | PurePath | int | float
Data: TypeAlias = str | bytes | bytearray | memoryview
QueryValue = str | int | bool | Sequence[str] | None


@dataclass
class Request:
    """What is asked of the server."""

    method: str
    path: str
    query: dict[str, QueryValue] = field(default_factory=dict)
    body: Json | None = None
    content: bytes | None = None
    key: str | None = None  # Idempotency-Key
    wait_s: int | None = None  # Prefer: wait
    timeout_s: float | None = None  # for the whole answer, or for a stream's next piece
    ends: bool = False  # timeout_s is for all the waits for a stream's pieces together
    accept: str = "application/json"
    once: bool = False  # a second attempt could do it twice
    upgrade: dict[str, str] | None = None  # headers that ask for another protocol

    def target(self) -> str:
        """Path and query."""
        pairs: list[tuple[str, str]] = []
        for name, value in self.query.items():
            if value is None:
                continue
            if isinstance(value, bool):
                pairs.append((name, "true" if value else "false"))
            elif isinstance(value, str | int):
                pairs.append((name, str(value)))
            else:
                pairs.extend((name, entry) for entry in value)
        return self.path + ("?" + urlencode(pairs, quote_via=quote) if pairs else "")

    def payload(self) -> bytes | None:
        if self.content is not None or self.body is None:
            return self.content
        try:
            return json.dumps(self.body, separators=(",", ":"), ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequestError(
                f"The request cannot be written as JSON: {error}.", code="invalid_request"
            ) from None

    def headers(self, api_key: str) -> dict[str, str]:
        out = {
            "Authorization": f"Bearer {api_key}",
            "Accept": self.accept,
            # what is not packed cannot unpack to more than its limit
            "Accept-Encoding": "identity",
            "User-Agent": f"sealmark-python/{VERSION}",
        }
        if self.content is not None:
            out["Content-Type"] = "application/octet-stream"
        elif self.body is not None:
            out["Content-Type"] = "application/json"
        if self.key is not None:
            out["Idempotency-Key"] = self.key
        if self.wait_s is not None:
            out["Prefer"] = f"wait={self.wait_s}"
        out.update(self.upgrade or {})
        return out


def change(method: str, path: str, body: Json | None = None, **fields: Any) -> Request:
    """A request that changes something, with a key of its own unless it has one."""
    key = fields.pop("key", None)
    if key is None:
        key = str(uuid4())
    elif not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}", key):
        raise InvalidRequestError(
            "An idempotency key is 1 to 128 letters, digits, and _.:- after the first.",
            code="invalid_request",
        )
    return Request(method, path, body=body if body is not None else None, key=key, **fields)


def segment(value: str) -> str:
    """An id as a part of a path: it can name no other route."""
    if not isinstance(value, str) or value in ("", ".", ".."):
        raise InvalidRequestError(f"{value!r} is no id.", code="invalid_request")
    return quote(value, safe="")


def mode_text(mode: int | None) -> str | None:
    """0o755 as the API writes it."""
    if mode is None:
        return None
    if not isinstance(mode, int) or isinstance(mode, bool) or not 0 <= mode <= 0o7777:
        raise InvalidRequestError("mode is a number from 0 to 0o7777.", code="invalid_request")
    return f"{mode:03o}"


OPTIONS = frozenset(CreateOptions.__annotations__)


def remote_path(path: RemotePath, name: str = "path") -> str:
    """A path in a sandbox; it has slashes, whatever this computer has."""
    if not isinstance(path, str | PurePosixPath):
        raise TypeError(f"{name} is a text or a PurePosixPath, not {type(path).__name__}")
    return str(path)


def words(argv: Sequence[Word]) -> list[str]:
    """The program and its arguments."""
    for at, word in enumerate(argv):
        if not isinstance(word, str | PurePath | int | float) or isinstance(word, bool):
            raise TypeError(f"word {at} of the command is no text, but {type(word).__name__}")
    return [str(word) for word in argv]


def data_bytes(data: Data) -> bytes:
    """What is written: text as UTF-8, or bytes in any guise."""
    if isinstance(data, str):
        return data.encode()
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"data is a text or bytes, not {type(data).__name__}")
    return bytes(data)


def without_none(fields: Mapping[str, Any]) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


_CAMEL = re.compile(r"_([a-z0-9])")
_UNITS = {"memory_mib": "memoryMiB", "disk_mib": "diskMiB"}


def camel(name: str) -> str:
    """memory_mib is memoryMiB, timeout_seconds is timeoutSeconds."""
    return _UNITS.get(name) or _CAMEL.sub(lambda found: found[1].upper(), name)


def create_body(fields: Mapping[str, Any]) -> Json:
    """Fields of a sandbox as Python names them; what is inside of one is sent as it is.

    A name that looks like another one is an error here, where it can be said which; one that is
    like none is for the server, which may be newer.
    """
    for name in fields:
        if name not in OPTIONS and (near := get_close_matches(name, OPTIONS, 1)):
            raise TypeError(f"there is no option {name!r}; did you mean {near[0]!r}?")
    return {camel(name): value for name, value in fields.items() if value is not None}


def command_body(
    command: str | Sequence[Word],
    *,
    cwd: RemotePath | None,
    env: Mapping[str, str] | None,
    stdin: Data | None,
    timeout_ms: int | None,
    user: str | None,
) -> Json:
    """A text is run by bash, a sequence is a program and its arguments."""
    body = without_none(
        {
            "cwd": remote_path(cwd, "cwd") if cwd is not None else None,
            "env": dict(env) if env is not None else None,
            "timeoutMs": timeout_ms,
            "user": user,
        }
    )
    if isinstance(command, str):
        body["command"] = command
    else:
        body["argv"] = words(command)
    if isinstance(stdin, str):
        body["stdin"] = stdin
    elif stdin is not None:
        body["stdinBase64"] = base64.b64encode(data_bytes(stdin)).decode()
    return body


def shorter_timeout(error: SealmarkError) -> int | None:
    """What is left of the lease, in milliseconds, when a timeout nobody asked for is too long."""
    left = error.details.get("leaseSecondsLeft")
    if error.code != "lease_too_short" or not isinstance(left, int) or left < 1:
        return None
    return left * 1000 - min(500, left * 100)


def parse_json(body: bytes) -> Json:
    """The object that an answer is."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise invalid_answer("The answer is no JSON.") from None
    if not isinstance(value, dict):
        raise invalid_answer("The answer is no JSON object.")
    return value


class Lines:
    """Cuts a stream of JSON lines into objects."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, piece: bytes) -> list[Json]:
        searched = len(self._rest)
        self._rest += piece
        out: list[Json] = []
        begin = 0
        while (end := self._rest.find(b"\n", max(begin, searched))) >= 0:
            line = bytes(self._rest[begin:end]).strip()
            begin = end + 1
            if line:
                out.append(parse_json(line))
        del self._rest[:begin]
        if len(self._rest) > LINE_BYTES:
            raise invalid_answer("A line of the stream is longer than any that the API sends.")
        return out

    def finish(self) -> list[Json]:
        """What follows the last line end, if it is whole."""
        return self.feed(b"\n") if self._rest else []


def retry_delay(
    request: Request,
    error: SealmarkError,
    attempt: int,
    max_retries: int,
    jitter: Callable[[], float] = random.random,
) -> float | None:
    """Seconds until the same request is sent again; None when it is not.

    A request that may be done twice is sent again only when the server says that nothing was
    done, or could not be reached at all (`details["sent"]` is False).
    """
    if attempt >= max_retries or not error.retryable or error.status == 409:
        return None
    refused = error.status in (429, 503) or error.details.get("sent") is False
    if request.once and not refused:
        return None
    return pause(error, attempt, jitter)


def pause(
    error: SealmarkError, attempt: int, jitter: Callable[[], float] = random.random
) -> float | None:
    """How long to wait before attempt + 1, in seconds; None: longer than is sensible here."""
    if error.retry_after_ms is not None:
        named = error.retry_after_ms / 1000
        if named > NAMED_MOST_S:
            return None
        # never before the time named; not all of those who wait at the same instant
        return named + jitter() * min(1.0, 0.25 * named)
    backoff = min(BACKOFF_MOST_S, BACKOFF_FIRST_S * 2.0 ** min(attempt, 16))
    return backoff * (0.5 + 0.5 * jitter())


def capacity_delay(
    error: SealmarkError, attempt: int, left: float, jitter: Callable[[], float] = random.random
) -> float:
    """How long to wait for room, in seconds; the time named, but not past the end of the wait."""
    delay = pause(error, attempt, jitter)
    if delay is None:
        delay = (error.retry_after_ms or 0) / 1000
    return min(left, delay)
