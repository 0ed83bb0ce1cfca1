# SPDX-License-Identifier: Apache-2.0 - the student's process: loads the module, answers calls.
"""
Nothing here is trusted by anyone else. It only has to go on working when student code has replaced
open, json, sys.stdout or the built-in functions: so it keeps its own references to what it uses,
and its modules have their own table of built-in functions.
"""

__builtins__ = dict(vars(__import__("builtins")))

import builtins as shared_builtins  # noqa: E402
import io  # noqa: E402
import sys  # noqa: E402
from _thread import get_ident  # noqa: E402
from importlib import import_module  # noqa: E402
from os import _exit as leave  # noqa: E402
from os import read, register_at_fork, write  # noqa: E402

from .codec import CodecError  # noqa: E402
from .peer import Peer  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FRAMES_MOST = 6
READ_SIZE = 1 << 16
_WATCHED = {name: __builtins__[name] for name in ("len", "isinstance", "open", "__import__")}


class Socket:
    """The messages of the candidate's end: length (4 bytes, little endian), then the message."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.is_child = False
        register_at_fork(after_in_child=self.forked)
        self.thread = get_ident()
        self.buffer = bytearray()
        self.streams = (sys.stdout, sys.stderr)

    def forked(self) -> None:
        self.is_child = True

    def send(self, message: bytes) -> None:
        if self.is_child:
            leave(0)  # a child that came back from os.fork() has nothing to answer
        if get_ident() != self.thread:
            raise RuntimeError("only the main thread can call functions of the tests")
        for stream in self.streams:
            try:  # noqa: SIM105 - contextlib is not loaded for this
                stream.flush()
            except (OSError, ValueError):
                pass
        data = memoryview(len(message).to_bytes(4, "little") + message)
        while data:
            data = data[write(self.fd, data) :]

    def receive(self) -> bytes:
        buffer = self.buffer
        while len(buffer) < 4 or len(buffer) < 4 + int.from_bytes(buffer[:4], "little"):
            data = read(self.fd, READ_SIZE)
            if not data:
                leave(0)
            buffer += data
        end = 4 + int.from_bytes(buffer[:4], "little")
        message = bytes(buffer[4:end])
        del buffer[:end]
        return message

    def callback_raised(self, error: BaseException) -> None:
        """The examiner's affair."""

    def share(self, name: str) -> None:
        """The examiner's affair."""

    def heard(self, text: str) -> None:
        """The examiner's affair."""

    def broke(self, text: str) -> BaseException:
        leave(1)

    def stale(self) -> BaseException:
        leave(1)

    def left(self, name: str) -> BaseException:
        return SystemExit(name)


class Input(io.TextIOBase):
    """sys.stdin: what the tests put there, else empty."""

    encoding = "utf-8"
    errors = "strict"

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def read(self, size: "int | None" = -1, /) -> str:
        return self.peer.request("read", -1 if size is None else size)

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        return self.peer.request("readline", size)

    def __next__(self) -> str:
        line = self.readline()
        if not line:
            raise StopIteration
        return line


def part(module: "Any", name: str) -> "Any":
    """What `from module import name` gives."""
    try:
        return getattr(module, name)
    except AttributeError:
        if not hasattr(module, "__path__"):
            raise
        return import_module(f"{module.__name__}.{name}")


def where(error: BaseException, root: str) -> str:
    """The innermost frames that are in the student's files: "hw.py:12 in add"."""
    lines: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith(root):
            name = code.co_filename[len(root) :].lstrip("/")
            lines.append(f"{name}:{trace.tb_lineno} in {code.co_name}")
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and type(error.filename) is str:
        lines.append(f"{error.filename[len(root) :].lstrip('/')}:{error.lineno}")
    return "; ".join(lines[-FRAMES_MOST:])[:1000]


def run(fd: int, workspace: str) -> None:
    """Serve until the other end closes."""
    socket = Socket(fd)
    peer: Peer

    def load(name: str, wanted: "tuple[str, ...]") -> "tuple[Any, ...]":
        """Import a module; which of the wanted names it has, and their values."""
        module = import_module(name)
        values = []
        for each in wanted:
            try:
                values.append((True, part(module, each)))
            except (AttributeError, ModuleNotFoundError):
                values.append((False, None))
        patched = tuple(
            each for each, value in _WATCHED.items() if vars(shared_builtins).get(each) is not value
        )
        return module, tuple(values), patched

    def ask_input(prompt: object = "", /) -> str:
        return peer.request("input", str(prompt))

    def describe(error: BaseException) -> str:
        return where(error, workspace)

    peer = Peer(socket, False, {"load": load, "echo": lambda value: value}, describe)
    shared_builtins.input = ask_input
    sys.stdin = Input(peer)
    sys.argv = [""]
    sys.path[:] = [workspace, *(each for each in sys.path if "/sealmark/" not in each)]
    for name in [each for each in sys.modules if each.startswith("sealmark_examiner")]:
        del sys.modules[name]
    vars(sys.modules["__main__"]).clear()
    vars(sys.modules["__main__"])["__name__"] = "__main__"
    try:
        while True:
            peer.serve(socket.receive())
    except (CodecError, OSError):
        leave(1)
