# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, by class. All are `SealmarkError`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._records import CommandResult

# 409 that passes when another sandbox ends: the capacity wait sends the same create again.
CAPACITY_CODES = frozenset({"no_capacity", "quota_exceeded", "trial_busy"})
# 5xx that says no for good
FINAL_CODES = frozenset({"unavailable", "unsupported"})


class SealmarkError(Exception):
    """Base of all errors of this package.

    Attributes:
        code: what went wrong, for programs ("not_found", "quota_exceeded", ...).
        status: the HTTP status; 0 when there was no answer.
        message: what went wrong, for people.
        hint: what to do about it, or None.
        details: more of it, for programs; `details["issues"]` names every wrong field.
        request_id: the server's name of the request, for its operator's log, or None.
        retryable: whether the same call may work later without any other change.
        retry_after_ms: when to try again, in milliseconds, if the server said so.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "error",
        status: int = 0,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        retryable: bool = False,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.message = message
        self.hint = hint
        self.details: dict[str, Any] = dict(details or {})
        self.request_id = request_id
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms

    def __str__(self) -> str:
        words = f"{self.message} [{self.code}]"
        issues = [f"{issue.get('path')}: {issue.get('message')}" for issue in self.issues]
        if len(issues) > 1 or any(
            issue.replace(":", "", 1) not in self.message for issue in issues
        ):
            words += f" {'; '.join(issues)}."
        if self.hint:
            words += f" {self.hint}"
        if self.request_id:
            words += f" (request {self.request_id})"
        return words

    @property
    def issues(self) -> list[dict[str, Any]]:
        """The wrong fields of a request: `{"path": ..., "message": ...}` each."""
        found = self.details.get("issues")
        return [i for i in found if isinstance(i, dict)] if isinstance(found, list) else []


class AuthenticationError(SealmarkError):
    """No key, or one that the server does not know (401)."""


class PermissionDeniedError(SealmarkError):
    """The key, its limits, or the rights inside the sandbox do not allow it (402, 403)."""


class NotFoundError(SealmarkError):
    """No such sandbox, file, image or route (404)."""


class ConflictError(SealmarkError):
    """The state of things does not allow it now (409)."""


class InvalidRequestError(SealmarkError):
    """The request is wrong as it stands (400, 405, 413, 422)."""


class RateLimitError(SealmarkError):
    """Too many requests (429), also after trying again."""


class ServiceUnavailableError(SealmarkError):
    """The server cannot do it, now or (code `unavailable`) at all (5xx)."""


class ConnectionError(SealmarkError):  # noqa: A001 - the name that the contract gives
    """No answer, one that came too late or broke off, or one that is not of this API."""


class ArchiveError(SealmarkError):
    """A folder or an archive that cannot be copied without leaving its place."""


class BuildError(SealmarkError):
    """An image could not be built; `details["image"]` is its record."""


class CommandError(SealmarkError):
    """A command failed or timed out under `check=True`; `result` has all of it."""

    def __init__(self, result: CommandResult) -> None:
        if result.timed_out:
            code, message = "command_timeout", "The command took longer than it may."
        elif result.exit_code is None:
            code, message = "command_killed", "The command was killed."
        else:
            code, message = "command_failed", f"The command ended with {result.exit_code}."
        last = result.stderr.strip().rsplit("\n", 1)[-1][:500]
        super().__init__(message, code=code, hint=last or None)
        self.result = result

    def __reduce__(self) -> tuple[type[CommandError], tuple[CommandResult]]:
        return CommandError, (self.result,)  # so that other processes can be told

    @property
    def exit_code(self) -> int | None:
        return self.result.exit_code

    @property
    def timed_out(self) -> bool:
        return self.result.timed_out

    @property
    def stdout(self) -> str:
        return self.result.stdout

    @property
    def stderr(self) -> str:
        return self.result.stderr


_CLASSES: dict[int, type[SealmarkError]] = {
    401: AuthenticationError,
    402: PermissionDeniedError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    429: RateLimitError,
}


def class_of(status: int) -> type[SealmarkError]:
    """The class of an error by its HTTP status."""
    if status >= 500:
        return ServiceUnavailableError
    if status < 400:
        return ConnectionError
    return _CLASSES.get(status, InvalidRequestError)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _retry_after_ms(error: Mapping[str, Any], headers: Mapping[str, str], now: float) -> int | None:
    named = error.get("retryAfterMs")
    if isinstance(named, int) and not isinstance(named, bool) and named >= 0:
        return named
    header = headers.get("retry-after", "")
    if header.isascii() and header.isdigit() and len(header) < 10:
        return int(header) * 1000
    try:
        return max(0, int((parsedate_to_datetime(header).timestamp() - now) * 1000))
    except (ValueError, TypeError, OverflowError):
        return None


def error_of_object(
    error: object, status: int, headers: Mapping[str, str] | None = None, now: float = 0
) -> SealmarkError:
    """From the error object of an answer or of a stream, whatever it holds."""
    fields: Mapping[str, Any] = error if isinstance(error, dict) else {}
    headers = headers or {}
    own = fields.get("status")
    if not status and isinstance(own, int) and 400 <= own <= 599:
        status = own
    code = _text(fields.get("code")) or ("request_failed" if status >= 400 else "invalid_answer")
    wait_ms = _retry_after_ms(fields, headers, now)
    passing = code not in FINAL_CODES and (
        wait_ms is not None or status in (429, 502, 503, 504) or code in CAPACITY_CODES
    )
    details = fields.get("details")
    return class_of(status or 500)(
        _text(fields.get("message")) or f"The server answered with status {status}.",
        code=code,
        status=status,
        hint=_text(fields.get("hint")),
        details=details if isinstance(details, dict) else None,
        request_id=_text(fields.get("requestId")) or _text(headers.get("x-request-id")),
        retryable=passing,
        retry_after_ms=wait_ms,
    )


def error_of_answer(
    status: int, headers: Mapping[str, str], body: bytes, now: float
) -> SealmarkError:
    """From an answer that is no success. What is not of this API (a proxy's page) is one too."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None
    error = parsed.get("error") if isinstance(parsed, dict) else None
    return error_of_object(error, status, headers, now)


def invalid_answer(what: str) -> ConnectionError:
    """The server answered, but not as the API says."""
    return ConnectionError(
        what,
        code="invalid_answer",
        hint="Is the address that of a Sealmark server, of a version that fits?",
    )
