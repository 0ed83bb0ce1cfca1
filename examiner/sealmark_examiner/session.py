# SPDX-License-Identifier: Apache-2.0 - the examiner's hold on candidates: calls under limits.
"""
Theory of operation

A scope is a test, or what runs between tests (class and module fixtures). It has its own budget of
CPU and wall time and of output. While a call is out, the examiner waits for the answer, reads what
the candidate prints, and wakes when the wall time is over or when the CPU budget could be: CPU time
cannot grow faster than the clock, so there is no need to look more often.

Whatever ends a candidate (its own exit, a limit, a broken message) becomes the scope's fault. It is
raised as an exception that no `except Exception` of a test catches, and remembered: a test with a
fault never passes, whatever its code made of the exception. The next scope gets a new candidate.

An alarm bounds the examiner's own work in a test (a loop over a number that came from the student);
where the interpreter cannot take it, a limit of CPU time ends the examiner, and the host starts
another for the tests that are left.
"""

from __future__ import annotations

import _signal
import _socket
import builtins
import os
import resource
import select
import sys
import time

from . import arrays
from .codec import MESSAGE_MOST
from .peer import Peer
from .scope import Broken, Fault, FixtureFault, Process, Scope
from .share import Sharing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

READ_SIZE = 1 << 16
ALARM_SLACK_S = 2.0
HARD_SLACK_S = 4.0
LOAD_TRIES = 2
FULL_ERRNOS = (27, 28, 122)  # EFBIG, ENOSPC, EDQUOT
# What a grader's report looks like when a program prints it; a note for staff, nothing more.
SENTINELS = (b"Grade :=>>", b"<testsuite", b"::notice", b"::error", b"TAP version", b'"verdict"')
SKIPS = ("unittest.case.SkipTest", "_pytest.outcomes.", "unittest.case._ShouldStop")


class Session:
    """All candidates of a run, one after the other; also the transport of the Peer."""

    def __init__(self, control: _socket.socket | None, config: dict[str, Any]) -> None:
        self.control = control
        # What is said, and what ends a process: the host judges what lies between, by a measure
        # of CPU time that does not run while the host does other things.
        self.cpu_us = int(config.get("cpu_ms", 10_000)) * 1000
        self.cpu_kill_us = int(config.get("cpu_kill_ms", 0)) * 1000 or self.cpu_us
        self.wall_s = int(config.get("wall_ms", 35_000)) / 1000
        self.wall_kill_s = int(config.get("wall_kill_ms", 0)) / 1000 or self.wall_s
        self.output_bytes = int(config.get("output_bytes", 1 << 20))
        self.workspace = str(config.get("workspace", "/workspace"))
        self.cpus = os.cpu_count() or 1
        self.process: Process | None = None
        self.peer: Peer | None = None
        self.generation = 0
        self.loaded: dict[str, Any] = {}
        self.load_failures: dict[str, int] = {}
        self.load_fault: dict[str, Fault] = {}
        self.scope = Scope("", False)
        self.cheats: set[str] = set()
        self.busy = False
        self.broken = ""
        self.status = 0
        self.hard_cpu_s = resource.getrlimit(resource.RLIMIT_CPU)[1]
        self.pending = {"out": bytearray(), "err": bytearray()}
        self.own_streams = {"out": sys.stdout, "err": sys.stderr}
        self.own_stdin = sys.stdin
        tests = str(config.get("tests", "")) if control is not None else ""
        self.links_closed = False
        temporary = str(config.get("tmp", "/tmp"))
        self.sharing = Sharing(tests, temporary, self.workspace, self.copy_data, self.close_links)
        self.own_input = builtins.input
        _signal.signal(_signal.SIGALRM, self.alarm)

    # -- scopes ------------------------------------------------------------------------------

    def begin(self, name: str, test: bool = True) -> Scope:
        scope = self.scope = Scope(name, test)
        if self.process is not None:
            scope.cpu_before = self.process.cpu_us()
            scope.refused_before = self.process.value("pids.events", "max")
            scope.oom_before = self.process.value("memory.events", "oom_kill")
        if test:
            most = self.wall_kill_s + ALARM_SLACK_S
            _signal.setitimer(_signal.ITIMER_REAL, most)
            # and where the interpreter cannot take the alarm: SIGXCPU ends the process
            used = int(time.process_time() + most + HARD_SLACK_S)
            resource.setrlimit(resource.RLIMIT_CPU, (used, self.hard_cpu_s))
        return scope

    def finish(self, failed: bool) -> Scope:
        """End the scope: final figures; a candidate that left processes behind ends with it."""
        scope = self.scope
        process = self.process
        if process is not None:
            self.drain()
            scope.cpu_done += max(0, process.cpu_us() - scope.cpu_before)
            scope.peak = max(scope.peak, process.value("memory.peak"))
            if failed:
                scope.refused |= process.value("pids.events", "max") > scope.refused_before
                scope.oom |= process.value("memory.events", "oom_kill") > scope.oom_before
            if process.value("pids.current") > 1:
                scope.cpu_before = process.cpu_us()
                self.end_process()
        for text in self.pending.values():
            text.clear()
        if scope.out.total and any(each in scope.out.head + scope.out.tail for each in SENTINELS):
            self.cheats.add("FORGED_REPORT")
        if self.peer is not None and self.peer.equality_asked:
            self.cheats.add("EQUAL_TO_ALL")
        self.begin("", False)
        return scope

    def close(self) -> None:
        _signal.setitimer(_signal.ITIMER_REAL, 0)

    def over_cpu(self) -> str:
        return f"{self.cpu_us // 1000} ms of CPU time are over"

    def over_wall(self) -> str:
        return f"no answer within {self.wall_s:g} s"

    def alarm(self, number: int, frame: object) -> None:
        if self.busy:  # in the middle of something that must be whole
            _signal.setitimer(_signal.ITIMER_REAL, 0.1)
            return
        if not self.scope.test:
            return
        process = self.process
        used = self.scope.cpu_done
        if process is not None:
            used += process.cpu_us() - self.scope.cpu_before
        if used >= self.cpu_us:
            raise self.give_up("cpu_limit", self.over_cpu())
        raise self.give_up("wall_limit", "the test did not end in time")

    def give_up(self, verdict: str, text: str) -> BaseException:
        """Record a fault, end the candidate; returns what is to be raised."""
        scope = self.scope
        fault = Fault(verdict, text)
        if scope.fault is None:
            scope.fault = fault
        self.end_process()
        return fault if scope.test else FixtureFault(str(fault))

    # -- candidates --------------------------------------------------------------------------

    def ask_launcher(self, request: str) -> tuple[list[str], list[int]]:
        if self.control is None:
            raise Broken("tests use student code while they are collected")
        self.control.send(request.encode())
        room = _socket.CMSG_SPACE(16 * 4)
        data, rights, _, _ = self.control.recvmsg(4096, room)
        fds = [
            int.from_bytes(raw[at : at + 4], sys.byteorder)
            for _, _, raw in rights
            for at in range(0, len(raw) - 3, 4)
        ]
        words = data.decode().split(" ")
        if not data or words[0] == "failed":
            self.broken = f"launcher: {data.decode() or 'it ended'}"
            raise Broken(self.broken)
        return words, fds

    def start_process(self) -> None:
        self.busy = True
        try:
            words, fds = self.ask_launcher("spawn")
            self.process = Process(int(words[1]), dict(zip(words[2:], fds, strict=True)))
        finally:
            self.busy = False
        operations = {"input": self.do_input, "read": self.do_read, "readline": self.do_readline}
        self.peer = Peer(self, True, operations)
        self.generation += 1
        self.loaded = {}
        scope = self.scope
        scope.cpu_before = scope.refused_before = scope.oom_before = 0
        wall_used = scope.wall_used
        self.peer.request("echo", 0)  # until here it is our own doing
        scope.wall_used = wall_used
        scope.cpu_before = self.process.cpu_us()
        scope.cpu_seen, scope.seen_at = scope.cpu_done, time.monotonic()

    def end_process(self) -> None:
        process = self.process
        if process is None:
            return
        self.process = None
        if self.peer is not None:
            self.peer.closed = True
            if self.peer.equality_asked:
                self.cheats.add("EQUAL_TO_ALL")
        self.peer = None
        last_cpu = process.cpu_us() if "stat" in process.fds else 0
        self.busy = True
        try:
            words, _ = self.ask_launcher(f"end {process.number}")
        finally:
            self.busy = False
        facts = dict(word.split("=", 1) for word in words)
        scope = self.scope
        self.status = int(facts.get("status", "0"))
        cpu = int(facts.get("cpu.stat.usage_usec", last_cpu))
        scope.cpu_done += max(0, cpu - scope.cpu_before) if cpu else 0
        scope.peak = max(scope.peak, int(facts.get("memory.peak", "0")))
        scope.refused |= int(facts.get("pids.events.max", "0")) > scope.refused_before
        scope.oom |= int(facts.get("memory.events.oom_kill", "0")) > scope.oom_before
        self.drain(process)
        process.close()

    def clean(self) -> None:
        """Give back the disk that student code filled."""
        self.end_process()
        self.busy = True
        try:
            self.ask_launcher("clean")
        finally:
            self.busy = False

    def share(self, name: str) -> None:
        self.sharing.share(name)

    def heard(self, text: str) -> None:
        self.sharing.hear(text)

    def copy_data(self, name: str) -> None:
        self.busy = True
        try:
            self.ask_launcher(f"copy {name}")
        finally:
            self.busy = False

    def close_links(self) -> None:
        """Before the first look at what student code may have put into a folder."""
        if self.links_closed or self.control is None:
            return
        self.links_closed = True
        self.busy = True
        try:
            self.ask_launcher("links")
        finally:
            self.busy = False

    def ensure(self) -> Peer:
        if self.process is None or self.peer is None:
            if self.scope.fault is not None:
                raise self.give_up(self.scope.fault.verdict, self.scope.fault.text)
            self.start_process()
        assert self.peer is not None
        return self.peer

    def load(self, name: str, wanted: tuple[str, ...] = ()) -> tuple[Any, tuple[Any, ...]]:
        """Import a module of the student's in the candidate, once a candidate."""
        known = self.load_fault.get(name)
        if known is not None:
            raise self.give_up(known.verdict, known.text)
        peer = self.ensure()
        try:
            answer = peer.request("load", name, wanted)
        except (Fault, FixtureFault):
            self.load_failed(name)
            raise
        except (Exception, SystemExit) as error:
            verdict, text = self.judge_remote(error)
            failure = Fault(verdict, f"cannot import {name}: {text}")
            self.scope.fault = self.scope.fault or failure
            self.load_failed(name)
            raise self.give_up(verdict, failure.text) from None
        if type(answer) is not tuple or len(answer) != 3 or type(answer[1]) is not tuple:
            raise self.give_up("error", "the candidate broke the protocol")
        if answer[2]:
            self.cheats.add("PATCHED")
        self.load_failures[name] = 0
        self.loaded[name] = answer[0]
        return answer[0], answer[1]

    def load_failed(self, name: str) -> None:
        count = self.load_failures[name] = self.load_failures.get(name, 0) + 1
        if count >= LOAD_TRIES and self.scope.fault is not None:
            self.load_fault[name] = self.scope.fault

    def module(self, name: str) -> Any:
        if self.process is None or name not in self.loaded:
            return self.load(name)[0]
        return self.loaded[name]

    # -- the transport -----------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        process = self.process
        if process is None:
            raise self.stale()
        data = memoryview(len(message).to_bytes(4, "little") + message)
        while data:
            try:
                data = data[os.write(process.fds["sock"], data) :]
            except BlockingIOError:
                self.wait(select.POLLIN | select.POLLOUT)
            except OSError:
                self.wait(select.POLLIN)

    def receive(self) -> bytes:
        """The next message of the candidate; raises when it ends or exceeds a limit."""
        process = self.process
        if process is None:
            raise self.stale()
        buffer = process.buffer
        while True:
            if len(buffer) >= 4:
                size = int.from_bytes(buffer[:4], "little")
                if size > MESSAGE_MOST + 64:
                    raise self.broke(f"a message of {size} bytes")
                if len(buffer) == 4 + size:
                    break
                if len(buffer) > 4 + size:
                    raise self.broke("more than one message")
            self.wait(select.POLLIN)
        message = bytes(buffer[4:])
        buffer.clear()
        self.bridge()
        arrays.guard()
        return message

    def stale(self) -> BaseException:
        return self.give_up("ended_early", "used an object of a process that has ended")

    def broke(self, text: str) -> BaseException:
        self.cheats.add("PROTOCOL")
        return self.give_up("error", f"broke the protocol of the tests: {text}")

    def wait(self, events: int) -> None:
        """Until something happens, or a limit is reached."""
        process = self.process
        assert process is not None
        process.poll.modify(process.fds["sock"], events)
        now = time.monotonic()
        scope = self.scope
        left_ms = (self.wall_kill_s - scope.wall_used) * 1000
        unused_us = (self.cpu_kill_us - scope.cpu_seen) / self.cpus
        left_cpu_ms = unused_us / 1000 - (now - scope.seen_at) * 1000
        if left_cpu_ms <= 0:
            left_cpu_ms = self.check_cpu(process)
        ready = process.poll.poll(max(0, min(left_ms, left_cpu_ms)) + 1)
        scope.wall_used += time.monotonic() - now
        if not ready:
            self.check_cpu(process)
            if scope.wall_used >= self.wall_kill_s:
                raise self.give_up("wall_limit", self.over_wall())
            return
        dead = closed = False
        for fd, what in ready:
            if fd == process.fds["sock"]:
                if what & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    closed = not self.read_socket(process)
            elif fd == process.fds["pid"]:
                dead = True
            else:
                self.read_output(process, fd)
        if (dead or closed) and not self.answered(process):
            # its end and that of its socket are seen in any order
            if dead or select.select([process.fds["pid"]], [], [], 1.0)[0]:
                raise self.gone()
            raise self.broke("it closed its channel")

    @staticmethod
    def answered(process: Process) -> bool:
        buffer = process.buffer
        return len(buffer) >= 4 and len(buffer) >= 4 + int.from_bytes(buffer[:4], "little")

    def read_socket(self, process: Process) -> bool:
        try:
            data = os.read(process.fds["sock"], READ_SIZE)
        except BlockingIOError:
            return True
        except OSError:
            return False
        process.buffer += data
        return bool(data)

    def check_cpu(self, process: Process) -> float:
        """Raises when the CPU time is over; else in how many ms it could be."""
        scope = self.scope
        scope.cpu_seen = scope.cpu_done + process.cpu_us() - scope.cpu_before
        scope.seen_at = time.monotonic()
        if scope.cpu_seen >= self.cpu_kill_us:
            if process.value("pids.events", "max") > scope.refused_before:
                raise self.give_up("process_limit", "too many processes")
            raise self.give_up("cpu_limit", self.over_cpu())
        return (self.cpu_kill_us - scope.cpu_seen) / 1000 / self.cpus

    def gone(self) -> BaseException:
        """The candidate ended while it was asked something."""
        scope = self.scope
        self.end_process()
        if scope.oom:
            return self.give_up("memory_limit", "killed for its use of memory")
        status = self.status
        if scope.refused:
            return self.give_up("process_limit", "too many processes")
        if status >= 0:
            self.cheats.add("EXIT")
            return self.give_up("ended_early", f"left with exit status {status}")
        import signal

        name = signal.Signals(-status).name if -status in list(signal.Signals) else str(-status)
        if -status in (signal.SIGKILL, signal.SIGTERM):
            self.cheats.add("EXIT")
            return self.give_up("ended_early", f"killed itself with {name}")
        return self.give_up("error", f"crashed with {name}")

    def callback_raised(self, error: BaseException) -> None:
        if isinstance(error, AssertionError) and not hasattr(error, "_sealmark_remote"):
            self.scope.callback_failure = str(error)[:500] or "assertion in a callback"

    def left(self, name: str) -> BaseException:
        self.cheats.add("EXIT")
        return self.give_up("ended_early", f"student code raised {name}")

    # -- outputs and input -------------------------------------------------------------------

    def read_output(self, process: Process, fd: int) -> bool:
        """Read once; False when there was nothing."""
        name = "out" if fd == process.fds["out"] else "err"
        try:
            data = os.read(fd, READ_SIZE)
        except BlockingIOError:
            return False
        if not data:
            if self.process is process:
                process.poll.unregister(fd)
            return False
        kept = self.scope.out if name == "out" else self.scope.err
        if kept.total + len(data) > self.output_bytes:
            kept.add(data[: self.output_bytes - kept.total])
            kept.cut = True
            if self.process is process:
                raise self.give_up("output_limit", f"more than {self.output_bytes} bytes of output")
            return False
        kept.add(data)
        self.pending[name] += data
        return True

    def drain(self, process: Process | None = None) -> None:
        """What lies in the pipes, without waiting."""
        one = process or self.process
        if one is not None:
            for name in ("out", "err"):
                for _ in range(64):
                    try:
                        if not self.read_output(one, one.fds[name]):
                            break
                    except (Fault, FixtureFault, KeyError):
                        break

    def bridge(self) -> None:
        """Let the tests see what was printed, where they look at sys.stdout."""
        for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
            data = self.pending[name]
            if data:
                if stream is not self.own_streams[name] and stream is not None:
                    stream.write(data.decode("utf-8", "replace"))
                data.clear()

    def do_input(self, prompt: str) -> str:
        if type(prompt) is not str:
            raise TypeError("input() wants a string")
        if builtins.input is not self.own_input:
            return builtins.input(prompt)
        stream = self.stdin()
        if stream is None:
            raise EOFError("EOF when reading a line")
        sys.stdout.write(prompt)
        line = stream.readline()
        if not line:
            raise EOFError("EOF when reading a line")
        return line.rstrip("\n")

    def stdin(self) -> Any:
        """What the tests put in place of sys.stdin, or None."""
        stream = sys.stdin
        if stream is self.own_stdin or type(stream).__name__ == "DontReadFromInput":
            return None
        return stream

    def do_read(self, size: int) -> str:
        stream = self.stdin()
        return "" if stream is None else stream.read(int(size))

    def do_readline(self, size: int) -> str:
        stream = self.stdin()
        return "" if stream is None else stream.readline(int(size))

    # -- judgement ---------------------------------------------------------------------------

    def disk_full(self) -> bool:
        try:
            info = os.statvfs(self.workspace)
        except OSError:
            return False
        return info.f_bavail * info.f_frsize < 4096 or (info.f_files > 0 and info.f_favail == 0)

    def judge_remote(self, error: BaseException) -> tuple[str, str]:
        """Verdict and text of an exception that came out of student code."""
        remote = getattr(error, "_sealmark_remote", None)
        if remote is None:
            return "error", f"{type(error).__name__}: {error}"[:1000]
        base, names, text, where = remote
        shown = f"{names[0].removeprefix('builtins.') if names else base}: {text}"[:1000]
        if where:
            shown += f" ({where})"
        if any(name.startswith(SKIPS) for name in names):
            self.cheats.add("SKIP")
        if base == "MemoryError":
            return "memory_limit", shown
        if base == "SystemExit":
            self.cheats.add("EXIT")
            return "ended_early", f"student code called exit: {shown}"
        if isinstance(error, OSError) and error.errno in FULL_ERRNOS:
            return "disk_limit", shown
        if isinstance(error, PermissionError) and ("/sealmark" in text or "/proc" in text):
            self.cheats.add("SNOOPED")
        return "error", shown
