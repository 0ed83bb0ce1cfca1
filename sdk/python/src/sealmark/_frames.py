# SPDX-License-Identifier: Apache-2.0
"""The client's side of a WebSocket (RFC 6455): frames into messages, messages into frames.

Theory of operation: plain computation on bytes, shared by the blocking and the asynchronous
client; httpx makes the connection, with its pool, sockets, proxies and TLS, and hands it over
once the server has agreed. What a server sends is checked frame by frame before it is kept: no
frame is held that is larger than a message may be, so that what waits here is bounded.
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Literal

from ._errors import ConnectionError, invalid_answer

MESSAGE_BYTES = 1 << 20  # the most that a message may have, either way
CONTROL_BYTES = 125
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

MORE, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
GOODBYE = 1000
_FIXED_CODES = frozenset({1000, 1001, 1002, 1003, *range(1007, 1015)})

Kind = Literal["text", "binary", "ping", "pong", "close"]
_KINDS: dict[int, Kind] = {
    TEXT: "text",
    BINARY: "binary",
    CLOSE: "close",
    PING: "ping",
    PONG: "pong",
}


@dataclass(frozen=True)
class Message:
    """What came; `code` is that of a goodbye, and None if it has none."""

    kind: Kind
    data: bytes
    code: int | None = None


class Handshake:
    """The headers that ask for a WebSocket, and whether the answer agrees."""

    def __init__(self) -> None:
        self._key = base64.b64encode(os.urandom(16)).decode()

    def headers(self) -> dict[str, str]:
        return {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": self._key,
        }

    def check(self, status: int, headers: Mapping[str, str]) -> None:
        """Raises ConnectionError (`invalid_answer`) unless it is the answer to this key."""
        digest = hashlib.sha1(self._key.encode() + MAGIC, usedforsecurity=False).digest()
        words = [word.strip().lower() for word in headers.get("connection", "").split(",")]
        if (
            status != 101
            or headers.get("upgrade", "").lower() != "websocket"
            or "upgrade" not in words
            or headers.get("sec-websocket-accept") != base64.b64encode(digest).decode()
            or headers.get("sec-websocket-extensions")
            or headers.get("sec-websocket-protocol")
        ):
            raise invalid_answer("The server does not agree to a WebSocket.")


def masked(data: bytes, key: bytes) -> bytes:
    """Each byte against one of the key's four; twice is the data again."""
    count = len(data)
    pad = (key * (count // 4 + 1))[:count]
    return (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(count, "big")


def frame(opcode: int, data: bytes) -> bytes:
    """One message as one frame, as a client sends it."""
    count = len(data)
    if count < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | count)
    elif count < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, count)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, count)
    key = os.urandom(4)
    return head + key + masked(data, key)


def goodbye(code: int = GOODBYE) -> bytes:
    return frame(CLOSE, struct.pack("!H", code))


class Frames:
    """Takes bytes as they come, gives the messages that they complete.

    Raises ConnectionError (`invalid_answer`) for what no server may send. After a goodbye nothing
    counts any more.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._parts = bytearray()  # of a message in several frames
        self._opcode = MORE  # of that message; MORE: there is none
        self._over = False

    def feed(self, data: bytes) -> Generator[Message, None, None]:
        self._bytes += data
        while not self._over and (found := self._next()) is not None:
            message = self._take(*found)
            if message is not None:
                yield message
        if self._over:
            self._bytes.clear()

    def _next(self) -> tuple[int, bool, bytes] | None:
        """Opcode, whether it is the last of its message, and content of the next whole frame."""
        head = self._bytes
        if len(head) < 2:
            return None
        opcode, last, count = head[0] & 15, bool(head[0] & 0x80), head[1] & 0x7F
        if head[0] & 0x70 or head[1] & 0x80 or (opcode != MORE and opcode not in _KINDS):
            raise invalid_answer("The terminal sent a frame of a kind that was not agreed on.")
        begin = {126: 4, 127: 10}.get(count, 2)
        if len(head) < begin:
            return None
        if opcode >= CLOSE and (count > CONTROL_BYTES or not last):
            raise invalid_answer("The terminal sent a control frame that is too long or in parts.")
        if begin > 2:
            least = 126 if begin == 4 else 1 << 16
            count = int.from_bytes(head[2:begin], "big")
            if count < least:
                raise invalid_answer("The terminal sent a frame whose length is written too long.")
        if count + (len(self._parts) if opcode < CLOSE else 0) > MESSAGE_BYTES:
            raise ConnectionError(
                f"The terminal sent a message of more than {MESSAGE_BYTES} bytes.",
                code="answer_too_large",
                details={"sent": True},
            )
        if len(head) < begin + count:
            return None
        content = bytes(head[begin : begin + count])
        del head[: begin + count]
        return opcode, last, content

    def _take(self, opcode: int, last: bool, content: bytes) -> Message | None:
        if opcode >= CLOSE:
            return self._control(opcode, content)
        if (opcode == MORE) != (self._opcode != MORE):
            raise invalid_answer("The terminal sent parts of messages out of order.")
        if opcode != MORE:
            self._opcode = opcode
        self._parts += content
        if not last:
            return None
        message = Message(_KINDS[self._opcode], bytes(self._parts))
        self._parts.clear()
        self._opcode = MORE
        return message

    def _control(self, opcode: int, content: bytes) -> Message:
        if opcode != CLOSE:
            return Message(_KINDS[opcode], content)
        self._over = True
        if not content:
            return Message("close", b"")
        code = int.from_bytes(content[:2], "big")
        if len(content) < 2 or not (code in _FIXED_CODES or 3000 <= code <= 4999):
            raise invalid_answer("The terminal said goodbye with a code that there is not.")
        return Message("close", content[2:], code)
