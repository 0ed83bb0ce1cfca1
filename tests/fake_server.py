# SPDX-License-Identifier: Apache-2.0
"""A server that answers what a test tells it, byte for byte; clients must not trust it."""

import base64
import hashlib
import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Answer = Callable[["Request", socket.socket], None]


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def read_request(connection: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65536)
    method, path, _ = first.split(" ")
    return Request(method, path, headers, body)


def raw(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def say(status: int, value: Any, *headers: str) -> Answer:
    """An answer in JSON, or in bytes."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return lambda _, connection: connection.sendall(raw(status, body, *headers))


def fail(status: int, code: str, message: str = "No.", **more: Any) -> Answer:
    error = {"code": code, "status": status, "message": message, "requestId": "r-1", **more}
    return say(status, {"error": error})


def drop(_: Request, connection: socket.socket) -> None:
    """The connection ends without an answer."""


@dataclass
class FakeServer:
    """Gives the answers one after the other, the last one for ever; keeps what it was asked."""

    answers: list[Answer]
    asked: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.accepting = threading.Thread(target=self.run, daemon=True)
        self.accepting.start()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                request = read_request(connection)
                if request:
                    self.asked.append(request)
                    answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
                    answer(request, connection)
            except OSError:
                pass  # the client has seen enough

    def close(self) -> None:
        """The thread ends first: in accept() of a closed number it would take the connections of
        whatever has that number next."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join()
        self.listener.close()


# --- WebSocket ------------------------------------------------------------------------------------


def accept_key(key: str) -> str:
    digest = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    return base64.b64encode(digest).decode()


def upgrade(request: Request, connection: socket.socket, accept: str | None = None) -> None:
    accept = accept or accept_key(request.headers["sec-websocket-key"])
    lines = ["HTTP/1.1 101 X", "Upgrade: websocket", "Connection: Upgrade"]
    head = "\r\n".join([*lines, f"Sec-WebSocket-Accept: {accept}", "", ""])
    connection.sendall(head.encode())


def frame(payload: bytes | str | dict[str, Any], opcode: int | None = None) -> bytes:
    """Bytes are a binary frame, text and objects one of text."""
    if isinstance(payload, dict):
        payload = json.dumps(payload)
    data = payload if isinstance(payload, bytes) else payload.encode()
    kind = opcode or (2 if isinstance(payload, bytes) else 1)
    length = len(data)
    if length < 126:
        head = struct.pack("!BB", 0x80 | kind, length)
    elif length < 65536:
        head = struct.pack("!BBH", 0x80 | kind, 126, length)
    else:
        head = struct.pack("!BBQ", 0x80 | kind, 127, length)
    return head + data


def exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise OSError("closed")
        data += more
    return data


def next_frame(connection: socket.socket) -> tuple[int, bytes]:
    """Opcode and payload; a client's frames must be masked."""
    first, second = exactly(connection, 2)
    assert second & 0x80
    length = second & 0x7F
    if length == 126:
        (length,) = struct.unpack("!H", exactly(connection, 2))
    mask = exactly(connection, 4)
    data = exactly(connection, length)
    return first & 0xF, bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
