# SPDX-License-Identifier: Apache-2.0 - from what a framework saw of a test to its verdict.
"""Outcomes of a framework: passed, failed (an exception), skipped, expected (to fail, and did)."""

from __future__ import annotations

from .scope import Fault, Scope
from .session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FRAMES_MOST = 4
MESSAGE_MOST = 2500
TOO_MANY_LINKS = 40  # ELOOP


class Outcome:
    """What happened to one test so far; the first failure counts."""

    def __init__(self, kind: str = "passed", error: BaseException | None = None) -> None:
        self.kind = kind
        self.error = error
        self.text = ""
        self.notes: list[str] = []

    def add(self, kind: str, error: BaseException | None = None, text: str = "") -> None:
        if self.kind in ("passed", "skipped", "expected"):
            self.kind, self.error, self.text = kind, error, text
        elif error is not None:
            self.notes.append(f"then {type(error).__name__}: {error}"[:200])


def frames(error: BaseException, tests: str) -> list[str]:
    """The teacher's lines on the way to the exception."""
    import linecache

    lines: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(tests):
            source = linecache.getline(name, trace.tb_lineno).strip()
            lines.append(f"{name[len(tests) :].lstrip('/')}:{trace.tb_lineno}: {source}"[:300])
        trace = trace.tb_next
    return lines[-FRAMES_MOST:]


def message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as second:  # noqa: BLE001
        text = f"(no message: {type(second).__name__})"
    if len(text) > MESSAGE_MOST:
        text = f"{text[: MESSAGE_MOST // 2]}\n[...]\n{text[-MESSAGE_MOST // 2 :]}"
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def judge(session: Session, scope: Scope, outcome: Outcome, tests: str) -> tuple[str, str]:
    """Verdict and detail of a test whose scope has ended; a disk found full is emptied again."""
    verdict, detail = find_verdict(session, scope, outcome, tests)
    if verdict == "disk_limit":
        session.clean()
    return verdict, detail


def find_verdict(session: Session, scope: Scope, outcome: Outcome, tests: str) -> tuple[str, str]:
    if scope.fault is not None:
        return scope.fault.verdict, scope.fault.text
    if outcome.kind == "skipped":
        return "skipped", outcome.text
    if outcome.kind == "expected":
        return "skipped", "expected to fail, and failed"
    if outcome.kind == "passed":
        if scope.callback_failure:
            return "failed", f"in a function that the test passed: {scope.callback_failure}"
        return "passed", ""
    error = outcome.error
    verdict, text = classify(session, error, outcome.text)
    if verdict in ("failed", "error"):
        if scope.oom:
            verdict, text = "memory_limit", f"a process was killed for its use of memory; {text}"
        elif scope.refused:
            verdict, text = "process_limit", f"a new process was refused; {text}"
        elif session.disk_full():
            verdict, text = "disk_limit", f"the disk is full; {text}"
    lines = frames(error, tests) if error is not None else []
    return verdict, "\n".join([text, *lines, *outcome.notes[:3]])


def classify(session: Session, error: BaseException | None, text: str) -> tuple[str, str]:
    if error is None:
        return "failed", text
    if isinstance(error, Fault):
        return error.verdict, error.text
    remote: Any = getattr(error, "_sealmark_remote", None)
    if remote is not None:
        return session.judge_remote(error)
    if isinstance(error, OSError) and error.errno == TOO_MANY_LINKS:
        return "error", f"{message(error)} (tests follow no links where student code can write)"
    wrong = isinstance(error, AssertionError) or type(error).__module__ == "_pytest.outcomes"
    return ("failed" if wrong else "error"), message(error)
