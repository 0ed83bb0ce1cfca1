# SPDX-License-Identifier: Apache-2.0
"""Terminals over a WebSocket: the public client, a browser's way in, and hostile frames."""

import asyncio
import base64
import hashlib
import http.client
import json
import os
import socket
import ssl
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from people import PASSWORD, Browser, link_of
from serving import Server

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
HANDSHAKE = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class Socket:
    """A client that can also break the rules."""

    def __init__(
        self,
        server: Server,
        path: str,
        headers: dict[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        key = base64.b64encode(os.urandom(16)).decode()
        sent = {
            "Host": f"127.0.0.1:{server.port}",
            "Authorization": f"Bearer {server.key}",
            **HANDSHAKE,
            "Sec-WebSocket-Key": key,
            **(headers or {}),
        }
        lines = "".join(f"{k}: {v}\r\n" for k, v in sent.items() if v)
        self.socket.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        self.file = self.socket.makefile("rb")
        assert b" 101 " in self.file.readline()
        names = http.client.parse_headers(self.file)
        magic = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        expected = base64.b64encode(hashlib.sha1(magic.encode()).digest()).decode()
        assert names["Sec-WebSocket-Accept"] == expected
        self.ready = json.loads(self.next()[1])
        assert self.ready["type"] == "ready"

    def send(self, opcode: int, data: bytes, *, end: bool = True, mask: bool = True) -> None:
        key = os.urandom(4) if mask else b""
        n = len(data)
        head = bytes([opcode | (0x80 if end else 0)])
        bit = 0x80 if mask else 0
        if n < 126:
            head += bytes([bit | n])
        elif n < 65536:
            head += bytes([bit | 126]) + struct.pack("!H", n)
        else:
            head += bytes([bit | 127]) + struct.pack("!Q", n)
        body = bytes(b ^ key[i % 4] for i, b in enumerate(data)) if mask else data
        self.socket.sendall(head + key + body)

    def next(self) -> tuple[int, bytes]:
        """The next frame; (0, b"") at the end."""
        head = self.file.read(2)
        if len(head) < 2:
            return 0, b""
        assert not head[1] & 0x80, "a server does not mask"
        n = head[1]
        if n == 126:
            n = struct.unpack("!H", self.file.read(2))[0]
        elif n == 127:
            n = struct.unpack("!Q", self.file.read(8))[0]
        return head[0] & 15, self.file.read(n)

    def until(self, wanted: bytes) -> bytes:
        seen = b""
        while wanted not in seen:
            opcode, data = self.next()
            assert opcode, seen
            seen += data if opcode == BINARY else b""
        return seen

    def rest(self) -> list[tuple[int, bytes]]:
        """All frames until the server says goodbye, or is gone."""
        frames = [self.next()]
        while frames[-1][0] not in (0, CLOSE):
            frames.append(self.next())
        self.close()
        return frames

    def close_code(self) -> int | None:
        """What the server ends it with."""
        frames = self.rest()
        assert frames and frames[-1][0] == CLOSE, frames
        return struct.unpack("!H", frames[-1][1][:2])[0] if frames[-1][1] else None

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture
def connect(server: Server, sandbox: str) -> Iterator[Callable[..., Socket]]:
    made: list[Socket] = []

    def make(query: str = "", **headers: str) -> Socket:
        made.append(Socket(server, f"/v1/sandboxes/{sandbox}/terminal{query}", headers))
        return made[-1]

    yield make
    for one in made:
        one.close()


def state(server: Server, sandbox: str, process: str) -> str:
    return server.ask("GET", f"/v1/sandboxes/{sandbox}/processes/{process}").json["state"]


def wait_for(server: Server, sandbox: str, process: str) -> str:
    """Its state once it has ended."""
    path = f"/v1/sandboxes/{sandbox}/processes/{process}/output?follow=true"
    return json.loads(server.ask("GET", path).body.splitlines()[-1])["state"]


# --- the public client ------------------------------------------------------------------------


def test_a_terminal(box: Any) -> None:
    terminal = box.terminal(cols=100, rows=30)
    terminal.write("stty size; echo rea''dy\n")
    seen = b""
    while b"ready" not in seen:
        seen += terminal.recv()
    assert b"30 100" in seen
    terminal.resize(90, 20)
    terminal.write("stty size; exit 4\n")
    seen = b"".join(iter(terminal.recv, None))
    assert b"20 90" in seen
    assert terminal.exit_code == 4
    assert box.process(terminal.process_id).state == "exited"


def test_a_terminal_async(client_env: None) -> None:
    from withruntime import AsyncRuntime

    async def run() -> None:
        async with AsyncRuntime() as runtime:
            box = await runtime.sandboxes.create(memory_mib=256, timeout_seconds=300)
            async with box:
                terminal = await box.terminal(command="cat", cwd="/tmp")
                await terminal.write("a line\n\x04")
                seen = b""
                while (piece := await terminal.recv()) is not None:
                    seen += piece
                assert (seen, terminal.exit_code) == (b"a line\r\na line\r\n", 0)

    asyncio.run(run())


def test_a_process_is_attached_to_again(box: Any) -> None:
    process = box.spawn(["bash", "--norc"], pty={"cols": 80, "rows": 24})
    one = box.terminal(process_id=process.id)
    one.write("echo rea''dy\n")
    seen = b""
    while b"ready" not in seen:
        seen += one.recv()
    one.close()  # a goodbye, but not to what was there before
    two = box.terminal(process_id=process.id)
    again = b""
    while b"ready" not in again:
        again += two.recv()
    assert again[: len(seen)] == seen[: len(again)]
    two.write("exit 6\n")
    assert b"exit" in b"".join(iter(two.recv, None))
    assert two.exit_code == 6
    # also when it is over: what it printed, and how it ended
    three = box.terminal(process_id=process.id)
    assert b"ready" in b"".join(iter(three.recv, None))
    assert three.exit_code == 6


# --- frames -----------------------------------------------------------------------------------


def test_goodbye_hangs_up_and_a_cut_does_not(
    server: Server, sandbox: str, connect: Callable[..., Socket]
) -> None:
    polite, cut = connect("?command=cat"), connect("?command=cat")
    for one in (polite, cut):
        one.send(BINARY, b"hello\n")
        one.until(b"hello\r\nhello\r\n")
    polite.send(CLOSE, struct.pack("!H", 1001))
    assert polite.close_code() == 1001
    assert wait_for(server, sandbox, polite.ready["processId"]) == "killed"
    cut.close()
    again = connect(f"?processId={cut.ready['processId']}")
    again.until(b"hello\r\nhello\r\n")
    again.send(BINARY, b"more\n")
    again.until(b"more\r\nmore\r\n")
    assert state(server, sandbox, cut.ready["processId"]) == "running"


def test_fragments_and_control_frames_between(connect: Callable[..., Socket]) -> None:
    terminal = connect("?command=cat")
    terminal.send(BINARY, b"a", end=False)
    terminal.send(PING, b"now")
    terminal.send(0, b"", end=False)
    terminal.send(0, b"b\n")
    frames = [terminal.next()]
    while frames[-1][0] == BINARY:
        frames.append(terminal.next())
    assert frames[-1] == (PONG, b"now")
    terminal.send(TEXT, b'{"type":"resize","cols":5,"rows":6}')
    terminal.send(BINARY, b"\x04")
    rest = terminal.rest()
    assert json.loads([d for o, d in rest if o == TEXT][0])["pty"] == {"cols": 5, "rows": 6}
    assert b"ab\r\n" in b"".join(d for o, d in frames + rest if o == BINARY)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("no mask", 1002),
        ("large", 1009),
        ("large in pieces", 1009),
        ("not UTF-8", 1007),
        ("not JSON", 1008),
        ("another event", 1008),
        ("no size", 1008),
        ("unknown opcode", 1002),
        ("reserved bit", 1002),
        ("a continuation of nothing", 1002),
        ("large control frame", None),
        ("control frame in pieces", None),
        ("half a close code", None),
    ],
)
def test_frames_that_break_the_rules(
    server: Server, sandbox: str, connect: Callable[..., Socket], name: str, code: int | None
) -> None:
    terminal = connect("?command=cat")
    if name == "no mask":
        terminal.send(BINARY, b"x", mask=False)
    elif name == "large":
        terminal.socket.sendall(bytes([0x82, 0xFF]) + struct.pack("!Q", 1 << 40) + b"abcdefgh")
    elif name == "large in pieces":
        terminal.send(BINARY, bytes(600_000), end=False)
        terminal.send(0, bytes(600_000))
    elif name == "not UTF-8":
        terminal.send(TEXT, b"\xff")
    elif name == "not JSON":
        terminal.send(TEXT, b"{")
    elif name == "another event":
        terminal.send(TEXT, b'{"type":"exit","cols":5,"rows":6}')
    elif name == "no size":
        terminal.send(TEXT, b'{"type":"resize","cols":5,"rows":-6}')
    elif name == "unknown opcode":
        terminal.send(3, b"")
    elif name == "reserved bit":
        terminal.send(0x40 | BINARY, b"")
    elif name == "a continuation of nothing":
        terminal.send(0, b"")
    elif name == "large control frame":
        terminal.send(PING, bytes(126))
    elif name == "control frame in pieces":
        terminal.send(PING, b"", end=False)
    else:
        terminal.send(CLOSE, b"\x03")
    assert terminal.close_code() == code
    assert server.run(sandbox, "echo 1")["stdout"] == "1\n"


def test_a_flood_of_pings_that_nobody_reads(server: Server, sandbox: str) -> None:
    """The server stops reading before the answers pile up, and others are served."""
    terminal = Socket(server, f"/v1/sandboxes/{sandbox}/terminal?command=cat")
    terminal.socket.settimeout(3)
    ping = bytes([0x80 | PING, 0x80 | 125]) + bytes(4) + bytes(125)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 1 << 30:
            sent += terminal.socket.send(ping * 1000)
    assert server.run(sandbox, "echo 1")["stdout"] == "1\n"
    terminal.close()


def test_a_reader_that_is_slow_holds_up_nobody(server: Server, sandbox: str) -> None:
    slow = Socket(server, f"/v1/sandboxes/{sandbox}/terminal?command=yes")
    fast = Socket(server, f"/v1/sandboxes/{sandbox}/terminal?command=cat")
    for i in range(50):
        line = f"line {i}".encode()
        fast.send(BINARY, line + b"\n")
        fast.until(line + b"\r\n" + line + b"\r\n") if i == 0 else fast.until(line + b"\r\n")
    slow.close()
    fast.close()


# --- who may ----------------------------------------------------------------------------------


def test_handshakes_that_are_none(server: Server, sandbox: str) -> None:
    path = f"/v1/sandboxes/{sandbox}/terminal"
    for change in (
        {"Upgrade": "h2c"},
        {"Connection": "close"},
        {"Sec-WebSocket-Version": "12"},
        {"Sec-WebSocket-Key": "short"},
        {"Sec-WebSocket-Key": "=" * 24},
    ):
        answer = server.ask("GET", path, headers={**HANDSHAKE, **change})
        assert (answer.status, answer.code) == (400, "invalid_request"), change
    answer = server.ask("GET", path, headers=HANDSHAKE, key="nonsense")
    assert (answer.status, answer.code) == (401, "unauthorized")
    reader = server.make_key("--access", "read")
    answer = server.ask("GET", path, headers=HANDSHAKE, key=reader)
    assert (answer.status, answer.code) == (403, "permission_denied")
    for query, status in (("?cols=0", 400), ("?processId=none", 404), ("?cwd=/none", 400)):
        assert server.ask("GET", path + query, headers=HANDSHAKE).status == status
    process = server.ask("POST", f"/v1/sandboxes/{sandbox}/processes", {"command": "sleep 9"})
    answer = server.ask("GET", f"{path}?processId={process.json['id']}", headers=HANDSHAKE)
    assert (answer.status, answer.code) == (409, "no_terminal")


def test_the_server_ends_with_terminals_open(own_server: Callable[..., Server]) -> None:
    server = own_server()
    box = server.create()
    path = f"/v1/sandboxes/{box}/terminal"
    terminal = Socket(server, path + "?command=cat")
    process = terminal.ready["processId"]
    assert server.stop() == 0
    terminal.close()
    server.start()
    terminal = Socket(server, f"{path}?processId={process}")
    terminal.send(BINARY, b"on\n\x04")
    terminal.until(b"on\r\non\r\n")
    terminal.close()
    assert wait_for(server, box, process) == "exited"
    server.ask("DELETE", f"/v1/sandboxes/{box}")


def test_a_browser_that_is_signed_in(own_server: Callable[..., Server]) -> None:
    """It can send no header of its own: the cookie is taken with an Origin of ours only."""
    server = own_server()
    browser = Browser(server)
    fields = {"token": link_of(server), "password": PASSWORD, "name": "Ann"}
    assert browser.fetch("POST", "/api/setup", fields).status == 200
    assert browser.sign_in().status == 200
    path = f"/v1/sandboxes/{server.create()}/terminal"
    cookie = "; ".join(f"{k}={v}" for k, v in browser.cookies.items())
    headers = {"Authorization": "", "Cookie": cookie, "Origin": browser.origin}
    terminal = Socket(server, path + "?command=cat", headers)
    terminal.send(BINARY, b"typed\n\x04")
    assert b"typed\r\ntyped\r\n" in b"".join(d for o, d in terminal.rest() if o == BINARY)
    for origin in ("https://example.org", "null", f"http://127.0.0.1:{server.port + 1}"):
        answer = browser.ask("GET", path, headers={**HANDSHAKE, "Origin": origin})
        assert (answer.status, answer.code) == (403, "forbidden"), origin
    answer = server.ask("GET", path, headers={**HANDSHAKE, "Authorization": "", "Cookie": "x=y"})
    assert answer.status == 401


def test_over_tls(own_server: Callable[..., Server], tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*make, *names, "-keyout", key, "-out", cert], check=True, capture_output=True)
    server = own_server()
    box = server.create()
    assert server.stop() == 0
    server.start("--tls-cert", str(cert), "--tls-key", str(key))
    context = ssl.create_default_context(cafile=str(cert))
    path = f"/v1/sandboxes/{box}/terminal"
    terminal = Socket(server, path + "?command=cat", tls=context)
    line = b"x" * 1000
    for _ in range(100):
        terminal.send(BINARY, line + b"\n")
        terminal.until(line + b"\r\n")
    terminal.send(BINARY, b"\x04")
    frames = terminal.rest()
    assert frames[-1][0] == CLOSE
    assert json.loads([d for o, d in frames if o == TEXT][0])["exitCode"] == 0
    Socket(server, path, tls=context)  # left open at the end
    assert server.stop() == 0


def test_a_terminal_is_not_idle(own_server: Callable[..., Server]) -> None:
    server = own_server("--idle", "1")
    box = server.create()
    terminal = Socket(server, f"/v1/sandboxes/{box}/terminal?command=sleep+3;+echo+late")
    assert b"late\r\n" in b"".join(d for o, d in terminal.rest() if o == BINARY)
    server.ask("DELETE", f"/v1/sandboxes/{box}")


def still_open(terminal: Socket, word: bytes) -> bool:
    """Types a word, and reads until it is echoed or the terminal is over."""
    terminal.send(BINARY, word + b"\n")
    seen = b""
    while True:
        opcode, data = terminal.next()
        seen += data if opcode == BINARY else b""
        if word in seen:
            return True
        if opcode in (0, CLOSE):
            assert opcode == 0 or struct.unpack("!H", data[:2])[0] == 1008
            return False


def test_a_terminal_ends_with_its_session(own_server: Callable[..., Server]) -> None:
    """It stayed open, for whoever had it, after signing out and after another password."""
    server = own_server()
    browser = Browser(server)
    fields = {"token": link_of(server), "password": PASSWORD, "name": "Ann"}
    assert browser.fetch("POST", "/api/setup", fields).status == 200
    assert browser.sign_in().status == 200
    path = f"/v1/sandboxes/{server.create()}/terminal?command=cat"
    cookie = "; ".join(f"{k}={v}" for k, v in browser.cookies.items())
    headers = {"Authorization": "", "Cookie": cookie, "Origin": browser.origin}
    terminal = Socket(server, path, headers)
    assert still_open(terminal, b"before")
    assert browser.fetch("DELETE", "/api/session").status == 200
    assert not still_open(terminal, b"after")
    terminal.close()


def test_a_terminal_ends_with_its_key(server: Server, sandbox: str) -> None:
    """So did one of an account-wide key that was revoked, at a sandbox of another key."""
    key = server.make_key("--account-wide")
    headers = {"Authorization": f"Bearer {key}"}
    terminal = Socket(server, f"/v1/sandboxes/{sandbox}/terminal?command=cat", headers)
    assert still_open(terminal, b"before")
    name = server.ask("GET", "/v1/me", key=key).json["key"]["id"]
    assert server.command("keys", "revoke", name).returncode == 0
    assert not still_open(terminal, b"after")
    terminal.close()
