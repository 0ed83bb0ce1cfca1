# SPDX-License-Identifier: Apache-2.0
"""What the server answers, in types. Nothing is taken from an answer unchecked."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from ._errors import error_of_object, invalid_answer

Json: TypeAlias = dict[str, Any]
Stream: TypeAlias = Literal["stdout", "stderr"]
T = TypeVar("T")

# What is kept of each stream of a command when it is read as it comes; callbacks see all of it.
KEPT_BYTES = 16 << 20


def record(value: object, what: str) -> Json:
    if not isinstance(value, dict):
        raise invalid_answer(f"{what} is no object.")
    return value


def records(value: object, what: str) -> list[Json]:
    if not isinstance(value, list):
        raise invalid_answer(f"{what} is no list.")
    return [record(entry, f"An entry of {what}") for entry in value]


def _wrong(name: str) -> Exception:
    return invalid_answer(f"The field {name} is missing or of another kind than it should be.")


def text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _wrong(name)
    return value


def optional_text(fields: Mapping[str, Any], name: str) -> str | None:
    return None if fields.get(name) is None else text(fields, name)


def integer(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(name)
    return value


def optional_integer(fields: Mapping[str, Any], name: str) -> int | None:
    return None if fields.get(name) is None else integer(fields, name)


def micros(fields: Mapping[str, Any], name: str) -> int:
    """Money, a number or decimal text."""
    value = fields.get(name)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value):
        return int(value)
    return integer(fields, name)


def boolean(fields: Mapping[str, Any], name: str, otherwise: bool = False) -> bool:
    value = fields.get(name, otherwise)
    if not isinstance(value, bool):
        raise _wrong(name)
    return value


@dataclass(frozen=True)
class CommandResult:
    """How a command ended. A timeout and a failure are results, not errors.

    Attributes:
        exit_code: of the program; None when it was killed or timed out.
        timed_out: whether it took longer than `timeout_ms`.
        stdout, stderr: what it wrote, as text; bytes that are no UTF-8 become U+FFFD.
        stdout_truncated, stderr_truncated: whether some of it is missing there.
        duration_ms: how long it ran, in milliseconds.
        process_id: its name, or None.
        replayed: whether this is the kept answer to an earlier call with the same key.
        out_of_memory: what the kernel's memory killer did to it, or None.
    """

    exit_code: int | None
    timed_out: bool
    stdout: str
    stderr: str
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    duration_ms: int | None = None
    process_id: str | None = None
    replayed: bool = False
    out_of_memory: Json | None = None

    @staticmethod
    def of(answer: object) -> CommandResult:
        fields = record(answer, "The result of the command")
        memory = fields.get("outOfMemory")
        return CommandResult(
            exit_code=optional_integer(fields, "exitCode"),
            timed_out=boolean(fields, "timedOut"),
            stdout=text(fields, "stdout"),
            stderr=text(fields, "stderr"),
            stdout_truncated=boolean(fields, "stdoutTruncated"),
            stderr_truncated=boolean(fields, "stderrTruncated"),
            duration_ms=optional_integer(fields, "durationMs"),
            process_id=optional_text(fields, "processId"),
            replayed=boolean(fields, "replayed"),
            out_of_memory=record(memory, "outOfMemory") if memory is not None else None,
        )


@dataclass(frozen=True)
class FileEntry:
    """A file, folder or link in a sandbox; `mode` is octal text ("755"), `size` is in bytes."""

    name: str
    path: str
    type: str
    size: int
    mode: str
    modified_at: str | None
    uid: int | None
    gid: int | None
    owner: str | None
    group: str | None
    symlink_target: str | None

    @staticmethod
    def of(answer: object) -> FileEntry:
        fields = record(answer, "The entry")
        return FileEntry(
            name=text(fields, "name"),
            path=text(fields, "path"),
            type=text(fields, "type"),
            size=integer(fields, "size"),
            mode=text(fields, "mode"),
            modified_at=optional_text(fields, "modifiedAt"),
            uid=optional_integer(fields, "uid"),
            gid=optional_integer(fields, "gid"),
            owner=optional_text(fields, "owner"),
            group=optional_text(fields, "group"),
            symlink_target=optional_text(fields, "symlinkTarget"),
        )


@dataclass(frozen=True)
class FileEvent:
    """A change in a folder that is watched; `old_path` is what was renamed to `path`.

    `type` is create, write, remove, rename or chmod.
    """

    type: str
    path: str
    is_dir: bool
    old_path: str | None

    @staticmethod
    def of(answer: object) -> FileEvent:
        fields = record(answer, "The event")
        return FileEvent(
            type=text(fields, "type"),
            path=text(fields, "path"),
            is_dir=boolean(fields, "isDir"),
            old_path=optional_text(fields, "oldPath"),
        )


@dataclass(frozen=True)
class Image:
    """A version of an image; `info` is its whole record.

    `state` is queued, building, ready, failed or deleted; `version` counts the successful
    builds of a name, and is None for what has none.
    """

    id: str
    name: str | None
    version: int | None
    state: str
    tags: tuple[str, ...]
    error: str | None
    info: Json

    @staticmethod
    def of(answer: object) -> Image:
        fields = record(answer, "The image")
        tags = fields.get("tags") or []
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise _wrong("tags")
        version, error = fields.get("version"), fields.get("error")
        if isinstance(version, str) and version.isascii() and version.isdigit():
            version = int(version)
        return Image(
            id=text(fields, "id"),
            name=optional_text(fields, "name"),
            version=version if isinstance(version, int) else None,
            state=text(fields, "state"),
            tags=tuple(tags),
            error=error if error is None or isinstance(error, str) else str(error),
            info=fields,
        )


@dataclass(frozen=True)
class LogLine:
    """A line of an image's build: `seq` counts them, `text` has no line end."""

    seq: int
    text: str
    stream: str | None
    info: Json

    @staticmethod
    def of(fields: Json) -> LogLine:
        line = fields.get("text", fields.get("line", fields.get("message")))
        return LogLine(
            seq=integer(fields, "seq"),
            text=line if isinstance(line, str) else "",
            stream=optional_text(fields, "stream"),
            info=fields,
        )


# --- events of a command ----------------------------------------------------------------------


@dataclass(frozen=True)
class Started:
    """The command runs; `process_id` names it."""

    process_id: str
    type: Literal["start"] = "start"


@dataclass(frozen=True)
class Output:
    """A piece of output: as text, as the bytes themselves, and where it begins in all output."""

    type: Stream
    data: str
    raw: bytes
    offset: int


@dataclass(frozen=True)
class Truncated:
    """`dropped_bytes` of output are missing before `resume_at`."""

    dropped_bytes: int
    resume_at: int
    type: Literal["truncated"] = "truncated"


@dataclass(frozen=True)
class Exited:
    """The command has ended; the last event."""

    exit_code: int | None
    state: str | None
    timed_out: bool
    duration_ms: int | None
    process_id: str | None
    out_of_memory: Json | None = None
    type: Literal["exit"] = "exit"


@dataclass(frozen=True)
class Continues:
    """This stream ends here; the command goes on, and is read further from `cursor`."""

    process_id: str | None
    cursor: int
    type: Literal["continue"] = "continue"


Event: TypeAlias = Started | Output | Truncated | Exited


def _output(kind: Stream, fields: Json) -> Output:
    data, encoded = text(fields, "data"), optional_text(fields, "base64")
    try:
        if encoded is None:
            raw = data.encode(errors="replace")
            data = raw.decode()  # without halves of letters, which no file takes
        else:
            raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise invalid_answer("A piece of output is no base64.") from None
    return Output(kind, data, raw, integer(fields, "offset"))


def event_of(fields: Json) -> Event | Continues | None:
    """One event of a stream; None for a kind that this version does not know. Raises errors."""
    kind = text(fields, "type")
    if kind == "start":
        return Started(text(fields, "processId"))
    if kind == "stdout":
        return _output("stdout", fields)
    if kind == "stderr":
        return _output("stderr", fields)
    if kind == "truncated":
        return Truncated(integer(fields, "droppedBytes"), integer(fields, "resumeAt"))
    if kind == "exit":
        memory = fields.get("outOfMemory")
        return Exited(
            exit_code=optional_integer(fields, "exitCode"),
            state=optional_text(fields, "state"),
            timed_out=boolean(fields, "timedOut"),
            duration_ms=optional_integer(fields, "durationMs"),
            process_id=optional_text(fields, "processId"),
            out_of_memory=record(memory, "outOfMemory") if memory is not None else None,
        )
    if kind == "continue":
        return Continues(optional_text(fields, "processId"), integer(fields, "cursor"))
    if kind == "error":
        raise error_of_object(fields.get("error"), 0)
    return None


class OutputReader:
    """Where the reader of a command's output is, in bytes of both streams together.

    A stream that is read again from the cursor may send some of it twice, or no longer have
    all of it: the one is cut off, the other becomes a `Truncated`.
    """

    def __init__(self, cursor: int = 0) -> None:
        self.cursor = cursor

    def take(self, event: Event) -> list[Event]:
        if isinstance(event, Truncated):
            self.cursor = max(self.cursor, event.resume_at)
            return [event]
        if not isinstance(event, Output):
            return [event]
        out: list[Event] = []
        end = event.offset + len(event.raw)
        if event.offset > self.cursor:
            out.append(Truncated(event.offset - self.cursor, event.offset))
        elif event.offset < self.cursor:
            raw = event.raw[self.cursor - event.offset :]
            event = Output(event.type, raw.decode(errors="replace"), raw, self.cursor)
        if event.raw:
            out.append(event)
        self.cursor = max(self.cursor, end)
        return out


class Collector:
    """Makes a result of the events of a command."""

    def __init__(self, process_id: str | None = None) -> None:
        self.process_id = process_id
        self._parts: dict[Stream, list[str]] = {"stdout": [], "stderr": []}
        self._room: dict[Stream, int] = {"stdout": KEPT_BYTES, "stderr": KEPT_BYTES}
        self._cut: dict[Stream, bool] = {"stdout": False, "stderr": False}
        self.end: Exited | None = None

    def take(self, event: Event) -> None:
        if isinstance(event, Started):
            self.process_id = event.process_id
        elif isinstance(event, Output):
            self._keep(event)
        elif isinstance(event, Truncated):
            # it does not say which of the two has lost something
            self._cut = {"stdout": True, "stderr": True}
        else:
            self.end = event

    def _keep(self, event: Output) -> None:
        room = self._room[event.type]
        if len(event.raw) > room:
            self._cut[event.type] = True
            if room:
                self._parts[event.type].append(event.raw[:room].decode(errors="ignore"))
            self._room[event.type] = 0
        else:
            self._parts[event.type].append(event.data)
            self._room[event.type] = room - len(event.raw)

    def result(self) -> CommandResult:
        if self.end is None:
            raise invalid_answer("The stream of the command has no end.")
        return CommandResult(
            exit_code=self.end.exit_code,
            timed_out=self.end.timed_out,
            stdout="".join(self._parts["stdout"]),
            stderr="".join(self._parts["stderr"]),
            stdout_truncated=self._cut["stdout"],
            stderr_truncated=self._cut["stderr"],
            duration_ms=self.end.duration_ms,
            process_id=self.end.process_id or self.process_id,
            out_of_memory=self.end.out_of_memory,
        )
