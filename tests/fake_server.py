# SPDX-License-Identifier: Apache-2.0
"""A server that answers what a test tells it, byte for byte; clients must not trust it."""

import json
import socket
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
        threading.Thread(target=self.run, daemon=True).start()

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
        self.listener.close()
