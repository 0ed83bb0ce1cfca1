# SPDX-License-Identifier: Apache-2.0
"""A key for the command line, asked for there and approved by a person in the browser."""

import http.client
import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import Server
from support import PROGRAM

PASSWORD = "a long enough password"


class Owner:
    """The person who may approve keys, with what a browser would send."""

    def __init__(self, server: Server, token: str) -> None:
        self.server = server
        self.headers = {"Content-Type": "application/json", "Origin": server.url}
        setup = self.ask("POST", "/api/setup", {"token": token, "password": PASSWORD})
        assert setup.status == 200, setup.read()
        session = self.ask("POST", "/api/session", {"password": PASSWORD})
        assert session.status == 200, session.read()
        self.headers["Cookie"] = session.getheader("Set-Cookie", "").split(";")[0]
        told = json.loads(self.ask("GET", "/api/session").read())
        self.headers["X-Sealmark-CSRF"] = told["csrf"]

    def ask(self, method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        connection.request(method, path, None if body is None else json.dumps(body), self.headers)
        return connection.getresponse()

    def decide(self, code: str, verb: str, body: Any) -> None:
        answer = self.ask("POST", f"/api/approvals/{code}:{verb}", body)
        assert answer.status == 200, answer.read()


@pytest.fixture
def served(own_server: Callable[..., Server]) -> Iterator[tuple[Server, Owner]]:
    server = own_server()
    assert server.process and server.process.stdout
    token = None
    while not token:
        token = re.search(r"token=(\S+)", server.process.stdout.readline())
    yield server, Owner(server, token[1])


def environment(server: Server, folder: Path) -> dict[str, str]:
    return {**server.environment(), "XDG_CONFIG_HOME": str(folder / "config")}


def start(server: Server, folder: Path, *args: str) -> tuple[subprocess.Popen[str], str]:
    """The program once it has printed link and code; and the code."""
    program = subprocess.Popen(
        [PROGRAM, *args],
        env=environment(server, folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr
    seen = ""
    while "Waiting for a decision" not in seen:
        line = program.stderr.readline()
        assert line, seen
        seen += line
    link = re.search(r"^ +(http://127\.0\.0\.1:\d+/approve\?code=(\S+))$", seen, re.M)
    assert link and link[1].startswith(server.url), seen
    assert f"must be {link[2]}." in seen
    return program, link[2]


def test_login_approved(served: tuple[Server, Owner], tmp_path: Path) -> None:
    server, owner = served
    program, code = start(server, tmp_path, "login", server.url, "--purpose", "grading")
    asked = json.loads(owner.ask("GET", f"/api/approvals/{code}").read())
    assert (asked["agentName"], asked["purpose"]) == ("sealmark", "grading")
    owner.decide(code, "approve", {"access": "full"})
    assert program.wait(60) == 0
    done = subprocess.run(
        [PROGRAM, "sandbox", "ls"], env=environment(server, tmp_path), capture_output=True
    )
    assert done.returncode == 0, done.stderr


def test_login_denied(served: tuple[Server, Owner], tmp_path: Path) -> None:
    server, owner = served
    program, code = start(server, tmp_path, "login", server.url)
    owner.decide(code, "deny", {})
    assert program.wait(60) == 3
    assert program.stderr and "denied" in program.stderr.read()
    assert not list(tmp_path.rglob("credentials.json"))


def test_login_given_up_is_taken_back(served: tuple[Server, Owner], tmp_path: Path) -> None:
    server, owner = served
    program, code = start(server, tmp_path, "login", server.url)
    program.send_signal(signal.SIGINT)
    assert program.wait(60) == 130
    answer = owner.ask("POST", f"/api/approvals/{code}:approve", {"access": "full"})
    assert answer.status >= 400


def test_trial_run_goes_on_when_approved(served: tuple[Server, Owner], tmp_path: Path) -> None:
    server, owner = served
    args = ("sandbox", "run", "--trial", "--api-url", server.url, "--")
    program, code = start(server, tmp_path, *args, "python3", "-c", "print(6 * 7)")
    owner.decide(code, "approve", {"access": "full"})
    assert program.wait(60) == 0
    assert program.stdout and program.stdout.read() == "42\n"
    # the key was kept: the next one asks nobody
    done = subprocess.run(
        [PROGRAM, "sandbox", "run", "--trial", "--", "echo", "again"],
        env=environment(server, tmp_path),
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, b"again\n")
