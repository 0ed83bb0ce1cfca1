# SPDX-License-Identifier: Apache-2.0
"""A running `sealmark serve` for tests: started, asked over HTTP, killed, started again."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from support import PROGRAM, real_home, wait_until

MON_EXTEND = 0x104
MON_RULES = 0x106
RULE_PAUSE, RULE_PERSISTENT, RULE_AUTO_WAKE = 1, 2, 4


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """The error's code, if it is one."""
        return self.json.get("error", {}).get("code")


# What all servers of this run, and the monitors below them, have said. The files have no names, so
# they outlive their servers and nothing has to remove them.
LOGS: dict[str, IO[bytes]] = {}


def said(since: dict[str, int], most: int = 16384) -> Iterator[tuple[str, str]]:
    """What servers and monitors have said after these positions, by home, as much as is of use."""
    for home, log in LOGS.items():
        size = os.fstat(log.fileno()).st_size
        begin = max(since.get(home, 0), size - most)
        if text := os.pread(log.fileno(), size - begin, begin).decode("utf-8", "replace"):
            yield home, text


@dataclass
class Server:
    """One home and store; the process on them may change."""

    home: Path
    options: list[str] = field(default_factory=list)
    # machines made in advance come and go by themselves: only where a test is about them
    spares: list[str] = field(default_factory=lambda: ["--no-spares"])
    process: subprocess.Popen[str] | None = None
    port: int = 0
    key: str = ""

    def environment(self) -> dict[str, str]:
        env = {
            name: value
            for name, value in os.environ.items()
            if name == "SEALMARK_LIBEXEC" or not name.startswith(("SEALMARK_", "RUNTIME_"))
        }
        return {**env, "SEALMARK_HOME": str(self.home), "LC_ALL": "C.UTF-8"}

    def command(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *args], env=self.environment(), capture_output=True, text=True, timeout=60
        )

    def make_key(self, *options: str) -> str:
        done = self.command("keys", "create", "test", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start(self, *more: str) -> None:
        """Starts it on any free port and waits until it says where it listens."""
        log = LOGS.setdefault(str(self.home), tempfile.TemporaryFile("ab"))  # noqa: SIM115
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--listen", "127.0.0.1:0", *self.spares, *self.options, *more],
            env={**self.environment(), "SEALMARK_LOG": "debug"},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        found = re.fullmatch(r"listening on https?://127\.0\.0\.1:(\d+)\n", line)
        assert found, line
        self.port = int(found[1])
        self.key = self.key or self.make_key()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait(60)

    def stop(self) -> int:
        assert self.process
        self.process.terminate()
        return self.process.wait(60)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        timeout: float = 90,
    ) -> Answer:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        sent = {"Authorization": f"Bearer {self.key if key is None else key}", **(headers or {})}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            names = {k.lower(): v for k, v in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def open(self, method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
        """A request whose answer is read as it comes; closing it closes its connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        sent = {"Authorization": f"Bearer {self.key}", "Connection": "close"}
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, sent)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        return response

    def create(self, **fields: Any) -> str:
        """A small sandbox that runs; its id."""
        body = {"memoryMiB": 256, "timeoutSeconds": 300, **fields}
        answer = self.ask("POST", "/v1/sandboxes", body, headers={"Prefer": "wait=60"})
        assert answer.status == 201, answer.body
        assert answer.json["state"] == "running", answer.body
        return answer.json["id"]

    def run(self, sandbox: str, command: str, **fields: Any) -> Any:
        body = {"command": command, **fields}
        answer = self.ask("POST", f"/v1/sandboxes/{sandbox}:exec", body)
        assert answer.status == 200, answer.body
        return answer.json

    def stopped(self, sandbox: str) -> Any:
        """The record once it is stopped."""
        answer = self.ask("GET", f"/v1/sandboxes/{sandbox}?waitFor=stopped&timeoutSeconds=60")
        assert answer.json["state"] == "stopped", answer.body
        return answer.json

    def shorten_lease(self, sandbox: str, ms: int) -> None:
        """Tells the monitor itself, so that a test need not wait a minute."""
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self.home / "sandboxes" / sandbox / "control.sock"))
            control.sendall(struct.pack("<IHHIQ", 8, MON_EXTEND, 0, 5, ms))
            control.settimeout(60)
            while control.recv(65536):
                pass  # its end closes the connection

    def set_rules(
        self, machine: str, flags: int, *, lease: int = 300_000, left: int = 0, idle: int = 0
    ) -> None:
        """Other rules than its server gave it, in milliseconds, so that a test need not wait."""
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self.home / "sandboxes" / machine / "control.sock"))
            body = struct.pack("<IQQQQ", flags, lease, left, idle, 300_000)
            control.sendall(struct.pack("<IHHI", len(body), MON_RULES, 0, 5) + body)
            control.settimeout(60)
            got = b""
            while struct.pack("<HHI", 0x05, 0, 5) not in got:  # DONE on that stream
                got += control.recv(65536)

    def keeper(self, sandbox: str) -> list[int]:
        """The processes of a sandbox's monitor: keeper and monitor proper, by their directory."""
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self.home / "sandboxes" / sandbox / "control.sock"))
            raw = control.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        # the credentials are those of whoever called listen(): the keeper
        return [struct.unpack("iII", raw)[0]]

    def close(self) -> None:
        """Ends server and sandboxes, and removes the home."""
        # 0 is also the word of a sanitizer that has found nothing
        status = self.stop() if self.process and self.process.poll() is None else 0
        for sock in self.home.glob("sandboxes/*/control.sock"):
            with suppress(OSError, AssertionError):
                os.kill(self.keeper(sock.parent.name)[0], signal.SIGTERM)
        with suppress(AssertionError):  # what stays is found by whoever looks for it
            wait_until(lambda: not list(self.home.glob("sandboxes/*")), "the machines to end")
        shutil.rmtree(self.home, ignore_errors=True)
        assert status == 0, f"the server ended with status {status}"


def make_home() -> Path:
    """A home of its own with the kernel and the images of the real one."""
    home = Path(tempfile.mkdtemp(prefix="sealmark-"))
    home.chmod(0o755)
    (home / "kernels").symlink_to(real_home() / "kernels")
    # a folder of its own, so that what is built in a test stays in it
    (home / "images").mkdir(mode=0o755)
    # the lock and what is in the making there are that home's
    for image in (real_home() / "images").glob("[!.]*"):
        (home / "images" / image.name).symlink_to(image)
    return home


def spares(server: Server, state: int = 1) -> list[str]:
    """Machines that wait to be a sandbox's."""
    with sqlite3.connect(server.home / "sealmark.db", timeout=60) as db:
        rows = db.execute("SELECT id FROM spare WHERE state = ?", (state,)).fetchall()
    db.close()
    return [row[0] for row in rows]


def wait_spares(server: Server, count: int) -> list[str]:
    def settled() -> bool:
        return len(spares(server)) == count and not spares(server, 0) and not spares(server, 2)

    wait_until(settled, f"{count} machines made in advance")
    return spares(server)
