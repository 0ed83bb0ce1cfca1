# SPDX-License-Identifier: Apache-2.0
"""sealmark sandbox shell on a terminal: keys, sizes, ends; and servers that break the protocol."""

import json
import os
import pty
import signal
import socket
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

from fake_server import Answer, FakeServer, Request, fail, frame, next_frame, say, upgrade
from serving import Server
from support import PROGRAM

OURS = 3
BOX = "11111111-2222-3333-4444-555555555555"
READY = frame({"type": "ready", "processId": "p"})
Start = Callable[[FakeServer], "Shell"]


class Shell:
    """The program with a terminal of its own."""

    def __init__(self, env: dict[str, str], *args: str) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(100, 40)
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            [PROGRAM, "sandbox", "shell", *args],
            env=env,
            stdin=self.slave,
            stdout=self.slave,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.seen = b""

    def resize(self, cols: int, rows: int) -> None:
        ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def until(self, text: bytes) -> bytes:
        while text not in self.seen:
            self.seen += os.read(self.master, 4096)
        return self.seen

    def end(self) -> tuple[int, str]:
        status = self.process.wait(60)
        assert self.process.stderr
        assert termios.tcgetattr(self.slave) == self.before, "the terminal was not put back"
        return status, self.process.stderr.read().decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made: list[Shell] = []

    def start(server: FakeServer) -> Shell:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SEALMARK_", "RUNTIME_"))}
        ours = {"SEALMARK_API_URL": server.url, "SEALMARK_API_KEY": "k", "LC_ALL": "C.UTF-8"}
        made.append(Shell({**kept, **ours, "XDG_CONFIG_HOME": str(tmp_path)}, BOX))
        return made[-1]

    yield start
    for shell in made:
        shell.close()


@pytest.fixture
def fake() -> Iterator[Callable[[Answer], FakeServer]]:
    made: list[FakeServer] = []

    def make(answer: Answer) -> FakeServer:
        made.append(FakeServer([answer]))
        return made[-1]

    yield make
    for server in made:
        server.close()


def test_keys_sizes_and_the_end(fake: Callable[[Answer], FakeServer], start: Start) -> None:
    keys = b""
    sizes: list[tuple[int, int]] = []

    def terminal(request: Request, connection: socket.socket) -> None:
        nonlocal keys
        upgrade(request, connection)
        connection.sendall(READY + frame("?", 9) + frame(b"hello\xff\r\n"))
        while not keys.endswith(b"\x03q"):
            opcode, data = next_frame(connection)
            if opcode == 1:
                event = json.loads(data)
                assert event.pop("type") == "resize"
                sizes.append((event["cols"], event["rows"]))
                connection.sendall(frame(f"size {event['cols']}\r\n".encode()))
            elif opcode == 2:
                keys += data
        connection.sendall(frame(b"bye") + frame({"type": "exit", "exitCode": 7}))

    server = fake(terminal)
    shell = start(server)
    shell.until(b"hello\xff\r\n")
    shell.until(b"size 100")
    shell.resize(90, 30)
    os.kill(shell.process.pid, signal.SIGWINCH)
    shell.until(b"size 90")
    shell.type(b"ls\r\x03q")
    shell.until(b"bye")
    assert shell.end() == (7, "")
    assert keys == b"ls\r\x03q"
    assert sizes == [(100, 40), (90, 30)]
    assert "cols=100&rows=40" in server.asked[0].path
    assert server.asked[0].headers["authorization"] == "Bearer k"


def stay(request: Request, connection: socket.socket) -> None:
    """A terminal that never ends."""
    upgrade(request, connection)
    connection.sendall(READY + frame(b"here"))
    while True:
        next_frame(connection)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_puts_the_terminal_back(
    fake: Callable[[Answer], FakeServer], start: Start, how: signal.Signals
) -> None:
    shell = start(fake(stay))
    shell.until(b"here")
    assert termios.tcgetattr(shell.slave) != shell.before
    shell.process.send_signal(how)
    assert shell.end() == (128 + how, "")


def test_tilde_and_point_leave(fake: Callable[[Answer], FakeServer], start: Start) -> None:
    shell = start(fake(stay))
    shell.until(b"here")
    shell.type(b"\r~")
    shell.type(b".")
    assert shell.end() == (130, "")


def then(*frames: bytes) -> Answer:
    def answer(request: Request, connection: socket.socket) -> None:
        upgrade(request, connection)
        connection.sendall(b"".join(frames))

    return answer


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (then(), OURS, "was lost"),
        (then(READY, b"\x82\x7f" + b"\xff" * 8), OURS, "was lost"),
        (then(READY, b"\xff" * 64), OURS, "was lost"),
        (then(READY, frame(b"x" * (2 << 20))), OURS, "was lost"),
        (then(frame({"type": "exit", "exitCode": 300})), 44, ""),
        (then(frame("no json"), frame({"type": "exit", "exitCode": None})), 137, ""),
        (lambda r, c: upgrade(r, c, "wrong"), OURS, "not that of a WebSocket"),
        (fail(409, "sandbox_stopped", "It is over"), 2, "(sandbox_stopped, request id r-1)"),
        (say(200, {"ok": True}), OURS, "instead of a terminal"),
        (lambda _, c: c.sendall(b"x" * 20000), OURS, "no whole answer"),
        (then(frame({"type": "error", "error": {"code": "c", "message": "M"}})), OURS, "M (c)"),
    ],
    ids=range(11),
)
def test_what_breaks_off(
    fake: Callable[[Answer], FakeServer], start: Start, answer: Answer, status: int, says: str
) -> None:
    got, text = start(fake(answer)).end()
    assert got == status
    assert says in text


# --- a real one -----------------------------------------------------------------------------------


def test_a_terminal_in_a_machine(server: Server, sandbox: str, tmp_path: Path) -> None:
    env = {
        **server.environment(),
        "XDG_CONFIG_HOME": str(tmp_path),
        "SEALMARK_API_URL": server.url,
        "SEALMARK_API_KEY": server.key,
    }
    shell = Shell(env, sandbox, "bash --norc")
    try:
        # what is typed comes back as an echo too: the answer must not look like the question
        shell.type(b"stty size; tty; echo $((6 * 7))\r")
        shell.until(b"40 100\r\n")
        shell.until(b"/dev/pts/")
        shell.until(b"42\r\n")
        shell.resize(90, 30)
        os.kill(shell.process.pid, signal.SIGWINCH)
        shell.type(
            b"until [ \"$(stty size)\" = '30 90' ]; do sleep 0.05; done; echo re$((1))sized\r"
        )
        shell.until(b"re1sized")
        # Ctrl-C is the sandbox's: it ends the command there, and nothing here
        shell.type(b"echo sle$((1))eps; sleep 300\r")
        shell.until(b"sle1eps")
        shell.type(b"\x03echo a$((1))live\r")
        shell.until(b"a1live")
        shell.type(b"exit 7\r")
        assert shell.end() == (7, "")
    finally:
        shell.close()


def test_a_terminal_from_a_pipe(server: Server, sandbox: str, tmp_path: Path) -> None:
    env = {
        **server.environment(),
        "XDG_CONFIG_HOME": str(tmp_path),
        "SEALMARK_API_URL": server.url,
        "SEALMARK_API_KEY": server.key,
    }
    done = subprocess.run(
        [PROGRAM, "sandbox", "shell", sandbox],
        env=env,
        input=b"echo $((6 * 7))\nexit 5\n",
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 5, done.stderr
    assert b"42\r\n" in done.stdout
