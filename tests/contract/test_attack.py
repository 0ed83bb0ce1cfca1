# SPDX-License-Identifier: Apache-2.0
"""What was found by attacking: each test is one fault that was there, and stays mended."""

import http.client
import json
import resource
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from serving import Server
from support import PROGRAM

FEW = 3  # descriptors: those that are always open; as many may still be polled


def test_without_descriptors_nothing_is_taken_for_lost(own_server: Callable[..., Server]) -> None:
    """A server that could open nothing recorded the ends of sandboxes that ran."""
    server = own_server()
    box = server.create()
    assert server.process
    pid = server.process.pid
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)

    def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {server.key}"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    path = f"/v1/sandboxes/{box}"
    assert ask("GET", path)[1]["state"] == "running"
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (FEW, before[1]))
    for method, what, body in (
        ("GET", path, None),
        ("GET", "/v1/sandboxes", None),  # an empty list is no answer either
        ("POST", f"{path}:exec", {"command": "echo 1"}),
        ("GET", f"{path}/files/list?path=/tmp", None),
    ):
        status, answer = ask(method, what, body)
        assert (status, answer["error"]["code"]) == (503, "host_unavailable"), answer
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert ask("GET", path)[1]["state"] == "running"
    connection.close()
    assert server.run(box, "echo 1")["stdout"] == "1\n"


def test_descriptors_are_as_many_as_there_may_be(own_server: Callable[..., Server]) -> None:
    """A soft limit of 1024 was less than what a server takes."""
    server = own_server()
    assert server.process
    soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    assert soft == hard


def test_a_store_has_one_server(own_server: Callable[..., Server]) -> None:
    """Two took each other's machines and requests for what a dead one had left."""
    server = own_server()
    second = subprocess.run(
        [PROGRAM, "serve", "--listen", "127.0.0.1:0"],
        env=server.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 3, second.stdout
    assert server.process
    assert f"process {server.process.pid}" in second.stderr
    assert server.ask("GET", "/v1/health", key="").status == 200
    checked = server.command("serve", "--check")
    assert checked.returncode == 0, checked.stderr
    server.kill()
    server.start()  # what a killed one held is free at once


def test_a_key_that_may_read_does_not_wake(server: Server) -> None:
    """Reading a file of a paused sandbox woke it, which costs and gives it a new lease."""
    reader = server.make_key("--access", "read", "--account-wide")
    box = server.create()
    path = f"/v1/sandboxes/{box}"
    assert server.ask("POST", f"{path}:pause", {}).json["state"] == "paused"
    for what in ("files/list?path=/tmp", "files/content?path=/etc/hostname"):
        answer = server.ask("GET", f"{path}/{what}", key=reader)
        assert (answer.status, answer.code) == (409, "sandbox_paused"), answer.body
    assert server.ask("GET", path, key=reader).json["state"] == "paused"
    listed = server.ask("GET", f"{path}/files/list?path=/tmp")
    assert listed.status == 200, listed.body  # who may change it wakes it so
    assert server.ask("GET", f"{path}/files/list?path=/tmp", key=reader).status == 200
    assert server.ask("DELETE", path).status == 200


def test_a_stream_ends_with_its_key(server: Server, sandbox: str) -> None:
    """A stream of output told a revoked key all that came."""
    key = server.make_key("--account-wide")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
    body = {"command": "while sleep 0.05; do echo x; done", "stream": True}
    connection.request(
        "POST",
        f"/v1/sandboxes/{sandbox}:exec",
        json.dumps(body),
        {"Authorization": f"Bearer {key}"},
    )
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.readline()
    name = server.ask("GET", "/v1/me", key=key).json["key"]["id"]
    assert server.command("keys", "revoke", name).returncode == 0
    with suppress(http.client.IncompleteRead):  # it is cut off
        while answer.readline():
            pass
    connection.close()


BODY = "{}"
HIDDEN = "GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "lines",
    [
        "Content-Length: 2\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 2",
        "Content-Length: 2\r\nContent-Length: 4",
        "Content-Length: 2\r\nContent-Length: 2",
        "Content-Length : 2",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Content-Length: 2\r\nHost: y",
        "Content-Length: 2\r\nAuthorization: Bearer x",
        "Content-Length: 2\r\nX-A: \x01",
        "Content-Length: 2\r\nX(A): b",
    ],
)
def test_heads_of_two_meanings(fresh: Callable[..., Server], lines: str) -> None:
    """What one server takes for a body was the next request to another."""
    server = fresh()
    head = f"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 60) as client:
        client.sendall(f"{head}{lines}\r\n\r\n{BODY}{HIDDEN}".encode())
        got = b""
        with suppress(ConnectionResetError):  # it does not read what it has refused
            while piece := client.recv(65536):
                got += piece
    assert got.startswith(b"HTTP/1.1 400 "), got
    assert got.count(b"HTTP/1.1 ") == 1, got
    assert server.ask("GET", "/v1/sandboxes?includeStopped=true").json["data"] == []


def test_documents_of_many_values(fresh: Callable[..., Server]) -> None:
    """4 MiB of "[]," took 180 MB of the server, each time."""
    server = fresh()
    answer = server.ask("POST", "/v1/sandboxes", b'{"labels":[' + b"[]," * 1_300_000 + b"[]]}")
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert answer.json["error"]["details"]["issues"][0]["message"] == "has too many values"
    commas = {"command": "," * 100_000}  # a text is one value
    answer = server.ask("POST", "/v1/sandboxes/x:exec", commas)
    assert answer.status == 404, answer.body
