#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that answers what a case tells it to, and notes what it was asked otherwise.

`python3 scripted.py` says on its first line where it listens, on 127.0.0.1, and runs until its
input ends. A test sends a script to `POST /_script`, makes its calls, and asks `GET /_script`
for what went wrong and how many exchanges are left. README.md here says what a script may hold.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import socket
import struct
import sys
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TRICKLE_S = 0.05
MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
OPCODES = {"json": TEXT, "text": TEXT, "bytes": BINARY, "close": CLOSE, "ping": PING, "pong": PONG}


class Script:
    """What is to come, and what was wrong about what came."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.exchanges: list[dict[str, Any]] = []
        self.bound: dict[str, str] = {}
        self.problems: list[str] = []

    def begin(self, exchanges: list[dict[str, Any]]) -> None:
        with self.lock:
            self.exchanges, self.bound, self.problems = list(exchanges), {}, []

    def take(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request."""
        words = f"{asked['method']} {asked['path']}"
        with self.lock:
            if not self.exchanges:
                self.problems.append(f"{words}: nothing more was expected")
                return {"status": 418, "json": {"error": {"code": "not_in_the_script"}}}
            exchange = self.exchanges[0]
            problems = self.compare(exchange["request"], asked)
            if problems:
                self.problems += [f"{words}: {problem}" for problem in problems]
                return {"status": 418, "json": {"error": {"code": "not_in_the_script"}}}
            times = exchange.get("times", 1)
            if times > 1:
                exchange["times"] = times - 1
            else:
                self.exchanges.pop(0)
            return exchange["answer"]

    def compare(self, wanted: dict[str, Any], asked: dict[str, Any]) -> list[str]:
        problems = []
        for name in ("method", "path"):
            if wanted[name] != asked[name]:
                problems.append(f"{name} should be {wanted[name]}")
        query = {k: v if isinstance(v, list) else [v] for k, v in wanted.get("query", {}).items()}
        if query != asked["query"]:
            problems.append(f"query is {asked['query']}, should be {query}")
        if "body" in wanted:
            try:
                body = json.loads(asked["body"])
            except ValueError:
                body = asked["body"].decode(errors="replace")[:200]
            if body != wanted["body"]:
                problems.append(f"body is {body}, should be {wanted['body']}")
        if "text" in wanted and wanted["text"].encode() != asked["body"]:
            problems.append(f"body is {asked['body'][:200]!r}, should be {wanted['text']!r}")
        if "size" in wanted and wanted["size"] != len(asked["body"]):
            problems.append(f"body has {len(asked['body'])} bytes, should have {wanted['size']}")
        for name, value in wanted.get("headers", {}).items():
            sent = asked["headers"].get(name.lower())
            if isinstance(value, str) and value.startswith("$"):
                # the first time it may be anything, from then on the same
                if sent is None or sent != self.bound.setdefault(value, sent):
                    problems.append(f"{name} is {sent}, was {self.bound.get(value)}")
                if any(k != value and v == sent for k, v in self.bound.items()):
                    problems.append(f"{name} is {sent}, which was sent for another change")
            elif sent != value:
                problems.append(f"{name} is {sent}, should be {value}")
        return problems


def make_tar(answer: dict[str, Any]) -> bytes:
    """An archive of entries: name, and text or type (dir, symlink, hardlink, fifo, device)."""
    types = {
        "dir": tarfile.DIRTYPE,
        "symlink": tarfile.SYMTYPE,
        "hardlink": tarfile.LNKTYPE,
        "fifo": tarfile.FIFOTYPE,
        "device": tarfile.CHRTYPE,
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in answer["tar"]:
            info = tarfile.TarInfo(entry["name"])
            info.mode = int(entry.get("mode", "644"), 8)
            data = entry.get("text", "").encode() + b"\0" * entry.get("zeros", 0)
            if "type" in entry:
                info.type = types[entry["type"]]
                info.linkname = entry.get("target", "")
                info.mode = int(entry.get("mode", "755"), 8)
                data = b""
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(out.getvalue(), 1)[: answer.get("first")]


def body_of(answer: dict[str, Any]) -> tuple[bytes, str]:
    if "json" in answer:
        return json.dumps(answer["json"]).encode(), "application/json"
    if "lines" in answer:
        # in ASCII, so that a lone half of a surrogate pair can be sent as well
        lines = "".join(json.dumps(line) + "\n" for line in answer["lines"])
        return lines.encode(), "application/x-ndjson"
    if "tar" in answer:
        return make_tar(answer), "application/x-tar"
    if "base64" in answer:
        return base64.b64decode(answer["base64"]), "application/octet-stream"
    return (
        answer.get("text", "").encode() * answer.get("repeated", 1),
        answer.get("type", "application/octet-stream"),
    )


def content_of(name: str, value: Any) -> bytes:
    """What a message of a script holds, by the name of its kind."""
    if name == "json":
        return json.dumps(value).encode()
    if name == "close":
        return b"" if value is None else struct.pack("!H", value)
    if isinstance(value, dict):
        return value["repeated"].encode() * value["times"]
    return str(value).encode()


def frame(opcode: int, data: bytes) -> bytes:
    head = bytes([0x80 | opcode])
    if len(data) < 126:
        head += bytes([len(data)])
    elif len(data) < 65536:
        head += struct.pack("!BH", 126, len(data))
    else:
        head += struct.pack("!BQ", 127, len(data))
    return head + data


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def log_message(self, *args: object) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            pass  # a client that goes away is what some cases are about

    def read_body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def do(self) -> None:
        body = self.read_body()
        parts = urlsplit(self.path)
        if parts.path == "/_script":
            script = self.server.script
            if self.command == "POST":
                script.begin(json.loads(body))
            left = [exchange for exchange in script.exchanges if not exchange.get("may")]
            state = {"left": len(left), "problems": script.problems}
            self.answer({"json": state})
            return
        self.answer(
            self.server.script.take(
                {
                    "method": self.command,
                    "path": parts.path,
                    "query": parse_qs(parts.query, keep_blank_values=True),
                    "headers": {k.lower(): v for k, v in self.headers.items()},
                    "body": body,
                }
            )
        )

    do_GET = do_POST = do_PUT = do_DELETE = do  # noqa: N815

    def answer(self, answer: dict[str, Any]) -> None:
        if answer.get("drop"):
            self.close_connection = True
            return
        if "socket" in answer:
            self.close_connection = True
            self.talk(answer)
            return
        body, kind = body_of(answer)
        self.send_response(answer.get("status", 200))
        self.send_header("Content-Type", kind)
        for name, value in answer.get("headers", {}).items():
            self.send_header(name, value)
        if answer.get("cut"):
            # promises more than there is, and closes
            self.send_header("Content-Length", str(len(body) + 1000))
            self.close_connection = True
        elif answer.get("endless"):
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        if answer.get("endless") == "flood":
            while True:
                self.wfile.write(b"x" * 65536)
        while answer.get("endless"):
            # until the client has had enough of it: the write fails then
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(TRICKLE_S)

    def talk(self, answer: dict[str, Any]) -> None:
        """A WebSocket: what is said, and what must be heard, one after the other."""
        key = self.headers.get("Sec-WebSocket-Key", "")
        digest = hashlib.sha1((key + MAGIC).encode()).digest()
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Accept": base64.b64encode(digest).decode(),
            **answer.get("headers", {}),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
        said = f"HTTP/1.1 101 Switching Protocols\r\n{lines}\r\n".encode()
        for step in answer["socket"]:
            ((name, value),) = step.items()
            if name == "hears":
                self.wfile.write(said)
                said = b""
                if not self.hears(value):
                    break
            elif name == "raw":
                said += bytes.fromhex(value)
            else:
                said += frame(OPCODES[name], content_of(name, value))
        self.wfile.write(said)
        self.connection.shutdown(socket.SHUT_WR)
        while self.rfile.read(65536):
            pass  # a socket that is closed with bytes unread takes back what it has sent

    def hears(self, wanted: dict[str, Any]) -> bool:
        """Whether the next message of the client is the one that is wanted."""
        ((name, value),) = wanted.items()
        opcode, heard = self.message()
        if opcode == PONG and name != "pong":
            opcode, heard = self.message()
        right = opcode == OPCODES[name]
        if right and name == "json":
            right = json.loads(heard) == value
        elif right:
            right = heard == content_of(name, value)
        if not right:
            with self.server.script.lock:
                self.server.script.problems.append(
                    f"heard {opcode} {heard[:200]!r}, should be {wanted}"
                )
        return right

    def message(self) -> tuple[int, bytes]:
        """A whole message, which a client sends in one frame and masks."""
        head = self.rfile.read(2)
        if len(head) < 2:
            return 0, b"the end"
        if head[0] & 0xF0 != 0x80 or not head[1] & 0x80:
            return 0, b"not masked, or not whole"
        count = head[1] & 0x7F
        if count >= 126:
            count = int.from_bytes(self.rfile.read(2 if count == 126 else 8), "big")
        mask = self.rfile.read(4)
        return head[0] & 15, bytes(
            byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(count))
        )


class Scripted(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = Script()

    def handle_error(self, request: object, client_address: object) -> None:
        pass


def main() -> None:
    server = Scripted()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
