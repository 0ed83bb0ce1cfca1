# SPDX-License-Identifier: Apache-2.0 - what is known of a test as it runs, and of a candidate.
from __future__ import annotations

import os
import select
import time

HEAD = TAIL = 4096


class Fault(BaseException):
    """The candidate gave no answer: verdict and reason."""

    def __init__(self, verdict: str, text: str) -> None:
        super().__init__(f"{verdict}: {text}")
        self.verdict = verdict
        self.text = text


class FixtureFault(Exception):
    """A Fault between tests, where a framework stops the whole run at a BaseException."""


class Broken(Exception):
    """A failure of ours."""


class Kept:
    """Head and tail of an output; never more."""

    def __init__(self) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0
        self.cut = False

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = HEAD - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > TAIL:
            self.cut = True
            del self.tail[:-TAIL]


class Scope:
    """A test, or the time between two."""

    def __init__(self, name: str, test: bool) -> None:
        self.name = name
        self.test = test
        self.fault: Fault | None = None
        self.callback_failure = ""
        self.out = Kept()
        self.err = Kept()
        self.started = time.monotonic()
        self.wall_used = 0.0  # seconds in which student code was waited for
        self.cpu_before = 0
        self.cpu_done = 0
        self.cpu_seen = 0  # at least this much was used by ...
        self.seen_at = self.started  # ... this moment
        self.refused_before = 0
        self.oom_before = 0
        self.refused = False
        self.oom = False
        self.peak = 0
        self.remote_seen: list[tuple[str, tuple[str, ...], str, str]] = []


class Process:
    """A candidate: its socket, its outputs and its cgroup's files."""

    def __init__(self, number: int, fds: dict[str, int]) -> None:
        self.number = number
        self.fds = fds
        self.buffer = bytearray()
        self.poll = select.poll()
        # the socket first: what was printed before an answer is seen together with it
        for name in ("sock", "out", "err", "pid"):
            os.set_blocking(fds[name], False)
            self.poll.register(fds[name], select.POLLIN)

    def value(self, name: str, key: str = "") -> int:
        """A number of a cgroup file; 0 when there is none."""
        fd = self.fds.get(name)
        if fd is None:
            return 0
        try:
            words = os.pread(fd, 4096, 0).split()
        except OSError:
            return 0
        if not key:
            return int(words[0])
        at = words.index(key.encode()) if key.encode() in words else -1
        return int(words[at + 1]) if at >= 0 else 0

    def cpu_us(self) -> int:
        if "stat" not in self.fds:
            return self.value("cpu.stat", "usage_usec")
        try:  # without a cgroup
            words = os.pread(self.fds["stat"], 4096, 0).rpartition(b")")[2].split()
        except OSError:
            return 0
        ticks = sum(int(word) for word in words[11:15])
        return ticks * 1_000_000 // os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        for fd in self.fds.values():
            os.close(fd)
        self.fds = {}
