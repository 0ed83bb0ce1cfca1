# SPDX-License-Identifier: Apache-2.0
"""The calls of the cases, in the words of the Python SDK; results in the words of the cases."""

import asyncio
import base64
import contextlib
import dataclasses
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sealmark

CLASSES = {
    "ArchiveError": "archive",
    "AuthenticationError": "authentication",
    "BuildError": "build",
    "CommandError": "command",
    "ConflictError": "conflict",
    "ConnectionError": "connection",
    "InvalidRequestError": "invalidRequest",
    "NotFoundError": "notFound",
    "PermissionDeniedError": "permission",
    "RateLimitError": "rateLimit",
    "ServiceUnavailableError": "serviceUnavailable",
}


def snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), name.replace("MiB", "Mib"))


def camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def plain(record: Any) -> dict[str, Any]:
    return {camel(f.name): getattr(record, f.name) for f in dataclasses.fields(record)}


def fill(folder: str, tree: dict[str, str], link: str | None) -> None:
    for name, content in tree.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    if link:
        (Path(folder) / link).symlink_to("/etc/passwd")


class Own(Exception):
    """What a block of a case raises."""


class Client:
    """A client, blocking or asynchronous, and the calls of the cases on it."""

    def __init__(
        self, url: str, settings: dict[str, Any], asynchronous: bool, key: str = "test-key"
    ) -> None:
        self.loop = asyncio.new_event_loop() if asynchronous else None
        make = sealmark.AsyncRuntime if asynchronous else sealmark.Runtime
        self.asynchronous = asynchronous
        self.runtime: Any = make(
            key,
            url,
            max_retries=settings.get("maxRetries", 4),
            timeout=settings.get("timeoutMs", 20_000) / 1000,
            wait_for_capacity=settings.get("waitForCapacityMs", 0) / 1000,
        )
        self.known: dict[str, Any] = {}

    def do(self, value: Any) -> Any:
        """What a call gives, in either client."""
        if self.loop is None:
            return value

        async def wait() -> Any:
            return await value

        return self.loop.run_until_complete(wait())

    def all(self, events: Any) -> list[Any]:
        if self.loop is None:
            return list(events)

        async def collect() -> list[Any]:
            return [event async for event in events]

        return self.loop.run_until_complete(collect())

    def close(self) -> None:
        self.do(self.runtime.close())
        if self.loop:
            self.loop.close()

    def target(self, on: Any) -> Any:
        if isinstance(on, dict):
            make = sealmark.AsyncSandbox if self.asynchronous else sealmark.Sandbox
            return make(self.runtime._transport, {"id": on["sandbox"], "state": "running"})
        return self.known[on]

    def call(self, step: dict[str, Any]) -> Any:
        """One step; its result as the cases name it."""
        args = dict(step.get("args", {}))
        name = snake(step["call"].replace(".", "_"))
        on = self.target(step["on"]) if "on" in step else None
        result = getattr(self, f"call_{name}")(on, args)
        if "as" in step:
            self.known[step["as"]] = result
        return self.shown(result)

    def shown(self, result: Any) -> Any:
        kind = type(result).__name__.removeprefix("Async")
        if kind == "Sandbox":
            return {
                **result.info,
                "id": result.id,
                "state": result.state,
                "name": result.name,
                "labels": result.labels,
                "expiresAt": result.expires_at,
                "stopReason": result.stop_reason,
                **{
                    camel(name): getattr(result, name)
                    for name in ("charged_micros", "held_micros")
                    if camel(name) in result.info
                },
            }
        if kind == "Process":
            return {"id": result.id, "state": result.state, "exitCode": result.exit_code}
        if kind == "Terminal":
            return {
                "processId": result.process_id,
                "state": result.state,
                "exitCode": result.exit_code,
            }
        if kind == "Watch":
            names = "id path cursor exit_reason paused incomplete notices"
            return {camel(name): getattr(result, name) for name in names.split()}
        if kind == "Image":
            return {**plain(result), "tags": list(result.tags)}
        if kind == "Page":
            return {"ids": [entry.id for entry in self.all(result)]}
        if isinstance(result, list):
            return [self.shown(entry) for entry in result]
        if dataclasses.is_dataclass(result):
            return plain(result)
        if isinstance(result, bytes):
            return {"base64": base64.b64encode(result).decode()}
        return result

    # --- the calls ---

    def options(self, args: dict[str, Any]) -> dict[str, Any]:
        if "waitForCapacityMs" in args:
            args["waitForCapacity"] = args.pop("waitForCapacityMs") / 1000
        return {snake(name): value for name, value in args.items()}

    def call_me(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(self.runtime.me())

    def call_limits(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(self.runtime.limits())

    def call_usage(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(self.runtime.usage(**self.options(args)))

    def call_create(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(self.runtime.sandboxes.create(**self.options(args)))

    def call_get_or_create(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(self.runtime.sandboxes.get_or_create(**self.options(args)))

    def call_get(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(self.runtime.sandboxes.get(args["id"]))

    def call_list(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(self.runtime.sandboxes.list(**self.options(args)))

    def call_block(self, on: Any, args: dict[str, Any]) -> Any:
        throws = args.pop("throws", False)
        args = self.options(args)

        async def asynchronous() -> None:
            async with await self.runtime.sandboxes.create(**args):
                if throws:
                    raise Own

        try:
            if self.asynchronous:
                self.do(asynchronous())
            else:
                with self.runtime.sandboxes.create(**args):
                    if throws:
                        raise Own
        except Own:
            return {"raised": "own"}
        except sealmark.SealmarkError as error:
            return {"raised": CLASSES[type(error).__name__]}
        return {"raised": None}

    def command(self, args: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if "stdinBase64" in args:
            args["stdin"] = base64.b64decode(args.pop("stdinBase64"))
        if "pty" in args:
            args["pty"] = (args["pty"]["cols"], args["pty"]["rows"])
        command = args.pop("argv", None) or args.pop("command")
        return command, {snake(name): value for name, value in args.items()}

    def call_exec(self, on: Any, args: dict[str, Any]) -> Any:
        seen: dict[str, list[str]] = {"stdout": [], "stderr": []}
        follow = args.pop("follow", False)
        command, options = self.command(args)
        if follow:
            options.update(on_stdout=seen["stdout"].append, on_stderr=seen["stderr"].append)
        result = plain(self.do(on.exec(command, **options)))
        return {**result, "seen": {name: "".join(parts) for name, parts in seen.items()}}

    def call_exec_stream(self, on: Any, args: dict[str, Any]) -> Any:
        command, options = self.command(args)
        return self.all(on.exec_stream(command, **options))

    def call_spawn(self, on: Any, args: dict[str, Any]) -> Any:
        command, options = self.command(args)
        return self.do(on.spawn(command, **options))

    def call_processes(self, on: Any, args: dict[str, Any]) -> Any:
        return {"ids": [process.id for process in self.do(on.processes())]}

    def call_process(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.process(args["id"]))

    def call_process_output(self, on: Any, args: dict[str, Any]) -> Any:
        return self.all(on.output(args["cursor"]))

    def call_process_wait(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.wait())

    def call_process_write(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.write(args["text"], eof=args.get("eof", False)))

    def call_process_signal(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.signal(args["signal"]))

    def call_process_kill(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.kill())

    def call_process_resize(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.resize(args["cols"], args["rows"]))

    def call_terminal(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.terminal(**self.options(args)))

    def call_attach(self, on: Any, args: dict[str, Any]) -> Any:
        """A terminal of a process that was spawned."""
        make = sealmark.AsyncSandbox if self.asynchronous else sealmark.Sandbox
        box = make(self.runtime._transport, {"id": on.sandbox_id, "state": "running"})
        return self.do(box.terminal(process_id=on.id, **args))

    def call_terminal_show(self, on: Any, args: dict[str, Any]) -> Any:
        return on

    def call_terminal_write(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.write(b"\0" * args["zeros"] if "zeros" in args else args["text"]))

    def call_terminal_resize(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.resize(args["cols"], args["rows"]))

    def call_terminal_recv(self, on: Any, args: dict[str, Any]) -> Any:
        timeout = args["timeoutMs"] / 1000 if "timeoutMs" in args else None
        piece = self.do(on.recv(timeout=timeout))
        return None if piece is None else piece.decode()

    def call_terminal_until(self, on: Any, args: dict[str, Any]) -> Any:
        """Reads until the text has come."""
        seen = b""
        while args["text"].encode() not in seen:
            piece = self.do(on.recv(timeout=60))
            assert piece is not None, seen
            seen += piece
        return None

    def call_terminal_rest(self, on: Any, args: dict[str, Any]) -> Any:
        return b"".join(self.all(on)).decode()

    def call_terminal_count(self, on: Any, args: dict[str, Any]) -> Any:
        return sum(len(piece) for piece in self.all(on))

    def call_terminal_close(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.close())

    def call_watch_show(self, on: Any, args: dict[str, Any]) -> Any:
        return on

    def call_watch_events(self, on: Any, args: dict[str, Any]) -> Any:
        return self.all(on)

    def call_watch_first(self, on: Any, args: dict[str, Any]) -> Any:
        """The first event of a reader who then leaves; of one path, if it is named."""

        def wanted(event: Any) -> bool:
            return event.path == args.get("path", event.path)

        async def asynchronous() -> Any:
            async with contextlib.aclosing(on.events()) as events:
                async for event in events:
                    if wanted(event):
                        return event

        if self.loop:
            return self.loop.run_until_complete(asynchronous())
        with contextlib.closing(on.events()) as events:
            return next(event for event in events if wanted(event))

    def call_watch_get_new_events(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.get_new_events(**self.options(args)))

    def call_watch_stop(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.stop())

    def call_watch_block(self, on: Any, args: dict[str, Any]) -> Any:
        async def asynchronous() -> None:
            async with on:
                pass

        if self.loop:
            return self.loop.run_until_complete(asynchronous())
        with on:
            return None

    def call_files_watches_list(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.files.watches.list())

    def call_files_watches_stop(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.files.watches.stop(args["id"]))

    def call_files_write(self, on: Any, args: dict[str, Any]) -> Any:
        data = b"\0" * args["zeros"] if "zeros" in args else args["text"]
        mode = int(args["mode"], 8) if "mode" in args else None
        return self.do(on.files.write(args["path"], data, mode=mode))

    def call_files_read(self, on: Any, args: dict[str, Any]) -> Any:
        path = args.pop("path")
        return self.do(on.files.read(path, **self.options(args)))

    def call_files_read_text(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.files.read_text(args["path"]))

    def call_files_rename(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.files.rename(args["from"], args["to"], overwrite=args["overwrite"]))

    def call_files_chmod(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(on.files.chmod(args["path"], int(args["mode"], 8)))

    def call_files_upload(self, on: Any, args: dict[str, Any]) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            fill(folder, args["tree"], args.get("link"))
            return self.do(on.files.upload(folder, args["remote"]))

    def call_files_download(self, on: Any, args: dict[str, Any]) -> Any:
        """The files that are there after it; none may be anywhere else, or after an error."""
        remote = args.pop("remote")
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "parent" / "target"
            try:
                self.do(on.files.download(remote, target, **self.options(args)))
            except BaseException:
                assert not [p for p in Path(folder).rglob("*") if p.name != "parent"]
                raise
            assert [p.name for p in target.parent.iterdir()] == ["target"]
            return {
                str(p.relative_to(target)): p.read_text() for p in target.rglob("*") if p.is_file()
            }

    def call_files_download_file(self, on: Any, args: dict[str, Any]) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "file"
            self.do(on.files.download(args["remote"], target))
            assert [p.name for p in Path(folder).iterdir()] == ["file"]
            return target.read_text()

    def call_images_build(self, on: Any, args: dict[str, Any]) -> Any:
        log: list[str] = []
        if args.pop("log", False):
            args["onLog"] = lambda line: log.append(line.text)
        with tempfile.TemporaryDirectory() as folder:
            if "tree" in args:
                fill(folder, args.pop("tree"), args.pop("link", None))
                args["contextDir"] = folder
            image = self.do(self.runtime.images.build(**self.options(args)))
        return {**self.shown(image), "log": log}

    def call_images_list(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(self.runtime.images.list(**self.options(args)))

    def call_images_tag(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(self.runtime.images.tag(args["reference"], args["tag"]))

    def call_images_untag(self, on: Any, args: dict[str, Any]) -> Any:
        return self.do(self.runtime.images.untag(args["reference"], args["tag"]))

    def __getattr__(self, name: str) -> Callable[[Any, dict[str, Any]], Any]:
        """Those whose arguments have the same names and places."""
        if name.startswith("call_images_"):
            target, verb = self.runtime.images, name.removeprefix("call_images_")
            return lambda on, args: self.do(getattr(target, verb)(*args.values()))
        if name.startswith("call_files_"):
            verb = name.removeprefix("call_files_")
            return lambda on, args: self.do(getattr(on.files, verb)(**self.options(args)))
        if name.startswith("call_"):
            verb = name.removeprefix("call_")
            return lambda on, args: self.do(getattr(on, verb)(**self.options(args)))
        raise AttributeError(name)


def shown_error(error: sealmark.SealmarkError) -> dict[str, Any]:
    names = (
        "code status message hint details request_id retryable retry_after_ms exit_code stderr"
    ).split()
    shown = {camel(name): getattr(error, name, None) for name in names}
    return {"class": CLASSES[type(error).__name__], **shown}


def holds(wanted: Any, found: Any) -> bool:
    """Whether an object has what is wanted of it; everything else must be the same."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and holds(value, found[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(wanted) == len(found)
            and all(holds(w, f) for w, f in zip(wanted, found, strict=True))
        )
    return type(wanted) is type(found) and bool(wanted == found)
