# SPDX-License-Identifier: Apache-2.0
"""One sandbox: its commands, its life, its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from .._errors import CommandError, ConnectionError, NotFoundError, SealmarkError
from .._options import CreateOptions
from .._protocol import (
    Data,
    RemotePath,
    Request,
    Word,
    change,
    command_body,
    create_body,
    remote_path,
    segment,
    shorter_timeout,
)
from .._records import (
    Collector,
    CommandResult,
    Continues,
    Event,
    Exited,
    Json,
    Output,
    OutputReader,
    Started,
    event_of,
    micros,
    optional_text,
    record,
    records,
    text,
)
from ._files import AsyncFiles
from ._processes import AsyncProcess, passing
from ._terminal import AsyncTerminal
from ._transport import AsyncTransport
from ._wait import bounded, call

User = Literal["sandbox", "root"]
State = Literal["running", "paused", "stopped"]

TIMEOUT_MS = 60_000  # of a command that names none
GRACE_S = 60.0  # beyond a command's own time: a sandbox that starts takes 30 s of it
SETTLE_S = 60  # how long the server may wait for a change of state before it answers
KILL_S = 5.0


class AsyncSandbox:
    """A sandbox that exists. As a context manager it is removed at the end of the block.

    An error inside of the block is what the caller sees, also when the removal fails; the
    failure is a note on it then.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        info: Json,
        *,
        keep: bool = False,
        owns_transport: bool = False,
    ) -> None:
        self._transport = transport
        self._keep = keep
        self._owns_transport = owns_transport
        self.info = info
        """The whole record, as the server sent it last."""
        self.files = AsyncFiles(transport, self.id)

    @staticmethod
    async def create(
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        wait_for_capacity: float = 0.0,
        **options: Unpack[CreateOptions],
    ) -> AsyncSandbox:
        """Makes one with a client of its own, which `close` or the end of the block closes.

        Options and errors are those of `runtime.sandboxes.create`; key and address come from
        the environment unless they are given, as for a `Runtime`.
        """
        from ._runtime import AsyncRuntime

        runtime = AsyncRuntime(api_key, base_url, wait_for_capacity=wait_for_capacity)
        try:
            box = await runtime.sandboxes.create(**options)
        except BaseException:
            await runtime.close()
            raise
        box._owns_transport = True
        return box

    @staticmethod
    async def connect(
        sandbox_id: str, *, api_key: str | None = None, base_url: str | None = None
    ) -> AsyncSandbox:
        """One that is there, by its id, with a client of its own, as `create` makes it.

        At the end of a block it is stopped, not removed. Raises NotFoundError.
        """
        from ._runtime import AsyncRuntime

        runtime = AsyncRuntime(api_key, base_url)
        try:
            box = await runtime.sandboxes.get(sandbox_id)
        except BaseException:
            await runtime.close()
            raise
        box._owns_transport = True
        return box

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, state={self.state!r})"

    @property
    def id(self) -> str:
        return text(self.info, "id")

    @property
    def name(self) -> str | None:
        return optional_text(self.info, "name")

    @property
    def state(self) -> str:
        """starting, running, pausing, paused, resuming, stopping or stopped; as last asked."""
        return text(self.info, "state")

    @property
    def labels(self) -> dict[str, str]:
        found = record(self.info.get("labels") or {}, "labels")
        return {name: value for name, value in found.items() if isinstance(value, str)}

    @property
    def stop_reason(self) -> str | None:
        """Why it ended, as "requested" or "lease_expired"; None while it has not."""
        return optional_text(self.info, "stopReason")

    @property
    def expires_at(self) -> str | None:
        """When the lease ends, ISO 8601 in UTC."""
        return optional_text(self.info, "expiresAt")

    @property
    def charged_micros(self) -> int:
        """What it has cost, in millionths of a dollar."""
        return micros(self.info, "chargedMicros")

    @property
    def held_micros(self) -> int:
        """What its lease can cost beyond that."""
        return micros(self.info, "heldMicros")

    def _path(self, suffix: str = "") -> str:
        return f"/v1/sandboxes/{segment(self.id)}{suffix}"

    # --- commands -----------------------------------------------------------------------------

    async def exec(
        self,
        command: str | Sequence[Word],
        *,
        cwd: RemotePath | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Data | None = None,
        timeout_ms: int | None = None,
        check: bool = False,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        user: User | None = None,
        idempotency_key: str | None = None,
    ) -> CommandResult:
        """Runs a command: a text with bash, a sequence as a program with its arguments.

        Args:
            cwd: where; by default the image's folder, `/workspace`.
            env: more variables.
            stdin: its whole input; without it there is none.
            timeout_ms: how long it may take, in milliseconds; 60,000 by default, or what is
                left of the lease if that is less. Then it is killed, and the result says
                `timed_out`, with the output until then.
            check: raise CommandError unless it exits with 0.
            on_stdout, on_stderr: get each piece of output as it is written.
            user: "root" for root's rights; by default the sandbox's user.
            idempotency_key: a call with the same key and arguments gets the same result and
                runs nothing, for 24 hours. Not together with the callbacks.

        Ctrl-C, or cancelling the task, ends the command, and 16 MiB of each of its streams are
        kept. With an `idempotency_key` it goes on, so that the same call gets its result, and
        64 KiB are kept (1 MiB if `timeout_ms` is over a minute). The flags of the result say
        what is missing.

        Raises:
            CommandError: with `check`.
            ConflictError: `lease_too_short`, `sandbox_stopped`, `not_running`, ...
            ConnectionError: its end was lost; it may have run. With an `idempotency_key` the
                same call is sent again by itself, and gets the result.
        """
        streams = on_stdout is not None or on_stderr is not None
        if streams and idempotency_key is not None:
            raise ValueError("idempotency_key does not go together with on_stdout and on_stderr")
        body = command_body(
            command, cwd=cwd, env=env, stdin=stdin, timeout_ms=timeout_ms, user=user
        )
        if idempotency_key is None:
            result = await self._followed(body, on_stdout, on_stderr)
        else:
            seconds = (timeout_ms or TIMEOUT_MS) / 1000 + GRACE_S
            request = change(
                "POST", self._path(":exec"), body, key=idempotency_key, timeout_s=seconds
            )
            result = CommandResult.of(await self._transport.json(request))
        if check and (result.exit_code != 0 or result.timed_out):
            raise CommandError(result)
        return result

    async def _followed(
        self,
        body: Json,
        on_stdout: Callable[[str], object] | None,
        on_stderr: Callable[[str], object] | None,
    ) -> CommandResult:
        collector = Collector()
        async with aclosing(self._events(body)) as events:
            async for event in events:
                collector.take(event)
                if isinstance(event, Output):
                    callback = on_stdout if event.type == "stdout" else on_stderr
                    if callback is not None:
                        await call(callback, event.data)
        return collector.result()

    async def exec_stream(
        self,
        command: str | Sequence[Word],
        *,
        cwd: RemotePath | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Data | None = None,
        timeout_ms: int | None = None,
        user: User | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The same as events: Started, Output..., Exited. Ends the command when it is closed."""
        body = command_body(
            command, cwd=cwd, env=env, stdin=stdin, timeout_ms=timeout_ms, user=user
        )
        async with aclosing(self._events(body)) as events:
            async for event in events:
                yield event

    async def _events(self, body: Json) -> AsyncGenerator[Event, None]:
        """Begins it, with a shorter time if nobody asked for one and the lease is short."""
        asked = body.get("timeoutMs")
        limit = asked or TIMEOUT_MS
        for tries_left in (2, 1, 0):
            try:
                async with aclosing(self._begun({**body, "timeoutMs": limit})) as events:
                    async for event in events:
                        yield event
                return
            except SealmarkError as error:
                shorter = shorter_timeout(error)
                if asked is not None or shorter is None or not tries_left:
                    raise
                limit = min(limit, shorter)

    async def _begun(self, body: Json) -> AsyncGenerator[Event, None]:
        reader = OutputReader()
        process_id: str | None = None
        ended = False
        request = change(
            "POST",
            self._path(":exec"),
            {**body, "stream": True},
            accept="application/x-ndjson",
            timeout_s=body["timeoutMs"] / 1000 + GRACE_S,
            ends=True,
            once=True,
        )
        try:
            try:
                async with aclosing(self._transport.lines(request)) as lines:
                    async for line in lines:
                        event = event_of(line)
                        if isinstance(event, Continues):
                            process_id = event.process_id or process_id
                            reader.cursor = max(reader.cursor, event.cursor)
                            break
                        if isinstance(event, Started):
                            process_id = event.process_id
                        ended = isinstance(event, Exited)
                        for taken in reader.take(event) if event else []:
                            yield taken
                        if ended:
                            return
            except SealmarkError as error:
                if process_id is None or not passing(error):
                    raise
            if process_id is None:
                raise ConnectionError(
                    "The stream ended before the command had begun.",
                    code="connection_error",
                    hint="It may have run. A call with an idempotency_key can be made again.",
                )
            rest = AsyncProcess(self._transport, self.id, {"id": process_id})
            async with aclosing(self._rest(rest, reader.cursor)) as more:
                async for taken in more:
                    ended = isinstance(taken, Exited)
                    yield taken
        finally:
            if process_id is not None and not ended:
                await bounded(KILL_S, lambda: self._kill(process_id))

    async def _rest(self, process: AsyncProcess, cursor: int) -> AsyncGenerator[Event, None]:
        """What a server that can has kept of a command whose stream broke off."""
        try:
            async with aclosing(process.output(cursor)) as events:
                async for event in events:
                    yield event
        except SealmarkError as error:
            raise ConnectionError(
                f"The output of the command was lost, and cannot be read further: {error.message}",
                code="connection_error",
                details={"processId": process.id},
                hint="The command was ended, or it runs on without a reader.",
            ) from error

    async def _kill(self, process_id: str | None) -> None:
        """The whole command, when whoever waits for it does not wait any more."""
        path = self._path(f"/processes/{segment(process_id or '')}:signal")
        body = {"signal": "SIGKILL"}
        await self._transport.json(change("POST", path, body, timeout_s=KILL_S, once=True))

    async def spawn(
        self,
        command: str | Sequence[Word],
        *,
        cwd: RemotePath | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Data | Literal["pipe"] | None = None,
        timeout_ms: int | None = None,
        pty: tuple[int, int] | Mapping[str, int] | None = None,
        user: User | None = None,
    ) -> AsyncProcess:
        """Starts a process that runs on by itself.

        `stdin="pipe"` keeps its input open for `write`; `pty=(columns, rows)`, or
        `{"cols": columns, "rows": rows}`, gives it a terminal. Without `timeout_ms` it may run
        as long as the lease.
        """
        body = command_body(
            command,
            cwd=cwd,
            env=env,
            stdin=None if stdin == "pipe" else stdin,
            timeout_ms=timeout_ms,
            user=user,
        )
        if stdin == "pipe":
            body["stdinMode"] = "pipe"
        if pty is not None:
            size = (
                pty if isinstance(pty, Mapping) else dict(zip(("cols", "rows"), pty, strict=True))
            )
            body["pty"] = dict(size)
        info = await self._transport.json(change("POST", self._path("/processes"), body))
        return AsyncProcess(self._transport, self.id, info)

    async def terminal(
        self,
        *,
        cols: int | None = None,
        rows: int | None = None,
        command: str | None = None,
        cwd: RemotePath | None = None,
        user: User | None = None,
        process_id: str | None = None,
    ) -> AsyncTerminal:
        """Opens a terminal of a login shell, to type in and read while it runs.

        Args:
            cols, rows: its size in letters, 80 and 24 by default.
            command: instead of the shell, run by bash.
            cwd: where; by default the image's folder, `/workspace`.
            user: "root" for root's rights; by default the sandbox's user.
            process_id: a process that has a terminal (`spawn` with `pty`, or one that was cut
                off), instead of a new one; then the size is set only if it is given.

        It is a context manager, whose end hangs the shell up. Raises NotFoundError,
        ConflictError (`sandbox_stopped`, ...), ConnectionError.
        """
        return await AsyncTerminal._open(
            self._transport,
            self.id,
            cols=cols,
            rows=rows,
            command=command,
            cwd=remote_path(cwd, "cwd") if cwd is not None else None,
            user=user,
            process_id=process_id,
        )

    async def processes(self) -> list[AsyncProcess]:
        """Those that were spawned, and commands: what runs, and the last that ended."""
        answer = await self._transport.json(Request("GET", self._path("/processes")))
        found = records(answer.get("data"), "the processes")
        return [AsyncProcess(self._transport, self.id, info) for info in found]

    async def process(self, process_id: str) -> AsyncProcess:
        """One of them. Raises NotFoundError."""
        path = self._path(f"/processes/{segment(process_id)}")
        info = await self._transport.json(Request("GET", path))
        return AsyncProcess(self._transport, self.id, info)

    # --- life ---------------------------------------------------------------------------------

    async def refresh(self) -> Self:
        """Asks for its record."""
        self.info = await self._transport.json(Request("GET", self._path()))
        return self

    async def wait_for(self, state: State, *, timeout_seconds: int = 60) -> Self:
        """Waits until it is in that state, at most 120 seconds; look at `state` after it."""
        self.info = await self._transport.json(
            Request(
                "GET",
                self._path(),
                query={"waitFor": state, "timeoutSeconds": timeout_seconds},
                timeout_s=timeout_seconds + GRACE_S,
            )
        )
        return self

    async def stop(self, *, wait: bool = True) -> Self:
        """Ends it; the record stays."""
        return await self._life("stop", {}, wait)

    async def pause(self, *, wait: bool = True) -> Self:
        """Stops its clock: it keeps its memory, and costs no CPU."""
        return await self._life("pause", {}, wait)

    async def wake(self, *, wait: bool = True) -> Self:
        """Lets it go on."""
        return await self._life("wake", {}, wait)

    async def restart(self, *, wait: bool = True) -> Self:
        """Starts it again."""
        return await self._life("restart", {}, wait)

    async def extend(self, seconds: int) -> Self:
        """Lengthens the lease by so many seconds."""
        return await self._life("extend", {"seconds": seconds}, False)

    async def update(self, **settings: Any) -> Self:
        """Changes settings of `create`, as `timeout_seconds`, `labels` or `env`."""
        return await self._life("update", create_body(settings), False)

    async def _life(self, verb: str, body: Json, wait: bool) -> Self:
        request = change("POST", self._path(f":{verb}"), body)
        if wait:
            request.wait_s, request.timeout_s = SETTLE_S, SETTLE_S + GRACE_S
        self.info = await self._transport.json(request)
        return self

    async def delete(self) -> None:
        """Ends it and forgets it. One that is gone already is no error."""
        try:
            await self._transport.json(change("DELETE", self._path()))
        except NotFoundError:
            pass

    async def metrics(self, *, range: str | None = None) -> Json:
        """What it used over time."""
        return await self._transport.json(
            Request("GET", self._path("/metrics"), query={"range": range})
        )

    async def close(self) -> None:
        """What the end of the block does: removes it, or with `keep` stops it."""
        try:
            if self._keep:
                await self.stop()
            else:
                await self.delete()
        finally:
            if self._owns_transport:
                await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except Exception as failure:
            if error is None:
                raise
            error.add_note(f"sandbox {self.id} could not be removed: {failure}")
