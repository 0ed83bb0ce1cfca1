# SPDX-License-Identifier: Apache-2.0
"""The package as it is shipped, and what no case can say."""

import asyncio
import io
import logging
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, Any

import pytest
from calls import Client
from scripting import Scripted

import sealmark
from sealmark._archive import unpack
from sealmark._protocol import Lines, Request, capacity_delay, pause, retry_delay
from sealmark._records import Collector, CommandResult, Exited, Output
from sealmark._settings import resolve

PACKAGE = Path(__file__).resolve().parents[1]
REPOSITORY = PACKAGE.parents[1]


def test_the_blocking_client_is_in_step() -> None:
    done = subprocess.run(
        [sys.executable, PACKAGE / "scripts" / "make_sync.py", "--check"], capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_types() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "src", "scripts", "examples"],
        cwd=PACKAGE,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_is_whole(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        + ["--disable-pip-version-check", "-w", tmp_path, PACKAGE],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"sealmark-{sealmark.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    source = PACKAGE / "src"
    assert {str(p.relative_to(source)) for p in source.rglob("*.py")} | {"sealmark/py.typed"} <= {
        name for name in names if name.startswith("sealmark/")
    }


def test_settings_come_from_the_environment() -> None:
    env = {"RUNTIME_API_KEY": "r", "SEALMARK_API_URL": "http://a:1/", "RUNTIME_API_URL": "http://b"}
    found = resolve(None, None, None, 1, 0, 0, env)
    assert (found.api_key, found.base_url, found.auth_url) == ("r", "http://a:1", "http://a:1")
    found = resolve(None, None, None, 1, 0, 0, {**env, "SEALMARK_API_KEY": "s"})
    assert found.api_key == "s"
    found = resolve("k", "unix:/run/s.sock", "https://people", 1, 0, 0, {})
    assert (found.socket_path, found.auth_url) == ("/run/s.sock", "https://people")


@pytest.mark.parametrize("url", ["", "unix:relative", "ftp://x", "http://", "http://x?key=1"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(sealmark.InvalidRequestError):
        resolve("k", url or "nonsense", None, 1, 0, 0, {})


def test_the_key_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with sealmark.Runtime("hidden-key", "http://127.0.0.1:9", max_retries=1) as runtime:
        assert "hidden" not in f"{runtime!r} {runtime.settings!r}"
        with pytest.raises(sealmark.ConnectionError) as failed:
            runtime.me()
    assert failed.value.retryable
    chain = [failed.value, failed.value.__cause__, failed.value.__context__]
    assert "hidden" not in " ".join(f"{error!r} {error}" for error in chain) + caplog.text
    for bad in ("hidden\nkey", "hidden ключ"):
        with pytest.raises(sealmark.AuthenticationError) as refused:
            sealmark.Runtime(bad)
        assert "hidden" not in f"{refused.value!r} {refused.value}"


def test_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEALMARK_API_KEY", "RUNTIME_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(sealmark.AuthenticationError, match="no key") as refused:
        sealmark.Runtime()
    assert refused.value.code == "no_key"


def test_waits_grow_to_a_ceiling_and_differ() -> None:
    plain = sealmark.SealmarkError("", retryable=True)
    waits = [pause(plain, attempt, lambda: 1.0) or 0 for attempt in range(12)]
    assert waits[:3] == [0.1, 0.2, 0.4]
    assert waits == sorted(waits)
    assert waits[-1] == 5.0
    assert pause(plain, 3, lambda: 0.0) != pause(plain, 3, lambda: 0.9)
    named = sealmark.SealmarkError("", retryable=True, retry_after_ms=2000)
    assert pause(named, 0, lambda: 0.0) == 2.0
    assert (pause(named, 9, lambda: 1.0) or 0) > 2.0


def test_the_wait_for_room_takes_the_time_named_and_no_more() -> None:
    full = sealmark.ConflictError("", code="no_capacity", retryable=True, retry_after_ms=60_000)
    assert capacity_delay(full, 0, 600.0, lambda: 0.0) == 60.0
    assert capacity_delay(full, 0, 6.0, lambda: 1.0) == 6.0


def make_archive(**files: str) -> IO[bytes]:
    out = tempfile.TemporaryFile()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    out.seek(0)
    return out


def test_a_folder_that_is_there_is_merged_into(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "old").write_text("old")
    (tmp_path / "d" / "both").write_text("old")
    (tmp_path / "elsewhere").write_text("elsewhere")
    (tmp_path / "d" / "link").symlink_to("../elsewhere")
    with make_archive(d__both="new", d__new="new", d__link="new") as archive:
        unpack(archive, tmp_path, "refuse")
    found = {p.name: p.read_text() for p in (tmp_path / "d").iterdir()}
    assert found == {"old": "old", "both": "new", "new": "new", "link": "new"}
    assert (tmp_path / "elsewhere").read_text() == "elsewhere"


def test_what_is_in_the_way_stops_a_merge_before_it_begins(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (target / "folder").mkdir(parents=True)
    (target / "link").symlink_to(tmp_path)
    for files in ({"a": "1", "folder": "2"}, {"a": "1", "link__x": "2"}):
        with make_archive(**files) as archive, pytest.raises(sealmark.ArchiveError):
            unpack(archive, target, "refuse")
        assert sorted(p.name for p in target.iterdir()) == ["folder", "link"]
        assert [p.name for p in tmp_path.iterdir()] == ["target"]


def test_what_could_be_done_twice_is_not_sent_again() -> None:
    lost = sealmark.ConnectionError("", retryable=True, details={"sent": True})
    unsent = sealmark.ConnectionError("", retryable=True, details={"sent": False})
    once = Request("POST", "/", once=True)
    assert retry_delay(once, lost, 0, 4) is None
    assert retry_delay(once, unsent, 0, 4) is not None
    assert retry_delay(Request("POST", "/"), lost, 0, 4) is not None
    assert retry_delay(once, unsent, 4, 4) is None


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_stream_that_should_have_ended_ends(scripted: Scripted, asynchronous: bool) -> None:
    """A server that sends an empty line now and then is not silent, but is no command either."""
    path = "/v1/sandboxes/b/x"
    request = {"method": "GET", "path": path}
    scripted.begin([{"request": request, "answer": {"endless": True, "text": "{}\n"}}])
    client = Client(scripted.url, {"maxRetries": 0}, asynchronous)
    try:
        with pytest.raises(sealmark.ConnectionError) as late:
            client.all(
                client.runtime._transport.lines(Request("GET", path, timeout_s=0.3, ends=True))
            )
        assert late.value.code == "timeout"
    finally:
        client.close()


def test_lines_come_in_any_pieces() -> None:
    whole = '{"a":"é"}\n\n{"b":2}\r\n{"c":3}'.encode()
    for size in range(1, len(whole) + 1):
        lines = Lines()
        found = []
        for at in range(0, len(whole), size):
            found += lines.feed(whole[at : at + size])
        assert found + lines.finish() == [{"a": "é"}, {"b": 2}, {"c": 3}]


def test_followed_output_is_kept_up_to_a_limit() -> None:
    collector = Collector("p")
    piece = "x" * (1 << 20)
    for index in range(17):
        collector.take(Output("stdout", piece, piece.encode(), index << 20))
    collector.take(Exited(0, "exited", False, 1, None))
    result = collector.result()
    assert (len(result.stdout), result.stdout_truncated) == (16 << 20, True)
    assert (result.stderr, result.stderr_truncated) == ("", False)


# --- what programs do by mistake ---------------------------------------------------------------


def sandbox(runtime: sealmark.Runtime) -> sealmark.Sandbox:
    return sealmark.Sandbox(runtime._transport, {"id": "b1", "state": "running"})


def test_mistakes_are_named_before_anything_is_sent() -> None:
    with sealmark.Runtime("k", "http://127.0.0.1:9", max_retries=0) as runtime:
        box = sandbox(runtime)
        untyped: Any = box
        for mistake, named in [
            (lambda: runtime.sandboxes.create(memory=1), "memory_mib"),  # type: ignore[call-arg]
            (lambda: untyped.update(timeout=60), "timeout_seconds"),
            (lambda: untyped.exec(["echo", b"x"]), "word 1"),
            (lambda: untyped.exec(["echo", None]), "word 1"),
            (lambda: untyped.files.write("/a", 5), "int"),
            (lambda: untyped.files.read(b"/a"), "bytes"),
            (lambda: untyped.files.rename("/a", None), "target"),
            (lambda: untyped.files.watch("/a", events="create"), "events"),
            (lambda: pickle.dumps(runtime), "each process"),
            (lambda: pickle.dumps(box), "each process"),
        ]:
            with pytest.raises(TypeError, match=named):
                mistake()


def test_paths_and_words_may_be_paths(scripted: Scripted) -> None:
    path = "/v1/sandboxes/b1"
    scripted.begin(
        [
            {
                "request": {
                    "method": "PUT",
                    "path": f"{path}/files/content",
                    "query": {"path": "/w/a"},
                    "text": "x",
                },
                "answer": {"json": {}},
            },
            {
                "request": {
                    "method": "POST",
                    "path": f"{path}/processes",
                    "body": {"argv": ["/bin/sleep", "1", "0.5"], "cwd": "/w"},
                },
                "answer": {"json": {"id": "p1"}},
            },
        ]
    )
    with sealmark.Runtime("k", scripted.url) as runtime:
        box = sandbox(runtime)
        box.files.write(PurePosixPath("/w/a"), memoryview(b"x"))
        box.spawn([PurePosixPath("/bin/sleep"), 1, 0.5], cwd=PurePosixPath("/w"))
    scripted.check()


def test_a_wrong_field_is_said_once() -> None:
    one = {"path": "vcpu", "message": "must be less"}
    two = {"path": "name", "message": "is taken"}
    say = sealmark.InvalidRequestError
    error = say("vcpu must be less.", code="invalid_request", details={"issues": [one]})
    assert str(error) == "vcpu must be less. [invalid_request]"
    error = say("vcpu must be less (and more).", code="c", details={"issues": [one, two]})
    assert str(error).endswith("[c] vcpu: must be less; name: is taken.")
    error = say("Not valid.", code="c", details={"issues": [two]})
    assert str(error) == "Not valid. [c] name: is taken."


def test_errors_go_from_process_to_process() -> None:
    result = CommandResult(3, False, "", "why\n", False, False, 1, "p")
    error = pickle.loads(pickle.dumps(sealmark.CommandError(result)))
    assert (error.result, error.exit_code, error.hint) == (result, 3, "why")
    refused = sealmark.ConflictError("No.", code="no_capacity", status=409, retry_after_ms=5)
    again = pickle.loads(pickle.dumps(refused))
    assert (type(again), str(again), again.__dict__) == (
        type(refused),
        "No. [no_capacity]",
        vars(refused),
    )


def test_a_folder_is_not_written_over_by_a_file(scripted: Scripted, tmp_path: Path) -> None:
    answer = {"json": {"name": "a", "path": "/a", "type": "file", "size": 1, "mode": "644"}}
    request = {"method": "GET", "path": "/v1/sandboxes/b1/files/stat", "query": {"path": "/a"}}
    scripted.begin([{"request": request, "answer": answer}])
    with (
        sealmark.Runtime("k", scripted.url) as runtime,
        pytest.raises(IsADirectoryError, match="name the file"),
    ):
        sandbox(runtime).files.download("/a", tmp_path)
    assert list(tmp_path.iterdir()) == []
    scripted.check()


# --- processes, loops, and what is given up ----------------------------------------------------


def test_a_forked_process_has_connections_of_its_own(scripted: Scripted) -> None:
    request = {"method": "GET", "path": "/v1/me"}
    scripted.begin([{"request": request, "answer": {"json": {"kind": "key"}}, "times": 3}])
    with sealmark.Runtime("k", scripted.url) as runtime:
        runtime.me()
        mine = runtime._transport._client
        child = os.fork()
        if child == 0:
            try:
                runtime.me()
                os._exit(0 if runtime._transport._client is not mine else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        runtime.me()
        assert runtime._transport._client is mine
    scripted.check()


def test_a_client_serves_one_loop_after_the_other(scripted: Scripted) -> None:
    request = {"method": "GET", "path": "/v1/me"}
    scripted.begin([{"request": request, "answer": {"json": {"kind": "key"}}, "times": 3}])
    runtime = sealmark.AsyncRuntime("k", scripted.url)

    async def ask() -> None:
        await runtime.me()

    async def while_another_waits() -> None:
        await runtime.me()
        with pytest.raises(RuntimeError, match="one event loop"):
            await asyncio.to_thread(asyncio.run, ask())
        await runtime.close()

    asyncio.run(ask())
    asyncio.run(ask())
    asyncio.run(while_another_waits())
    scripted.check()


CREATED = {"status": 201, "json": {"id": "b1", "state": "running"}}
CREATE = {
    "method": "POST",
    "path": "/v1/sandboxes",
    "body": {"vcpu": 1},
    "headers": {"Idempotency-Key": "$a"},
}
REMOVE = {"method": "DELETE", "path": "/v1/sandboxes/b1"}


def test_a_create_that_is_given_up_leaves_nothing(scripted: Scripted) -> None:
    scripted.begin(
        [
            {"request": CREATE, "answer": CREATED},
            {"request": CREATE, "answer": CREATED},
            {"request": REMOVE, "answer": {"json": {}}},
        ]
    )
    with sealmark.Runtime("k", scripted.url) as runtime:
        create = runtime._transport.create

        def interrupted(*args: Any) -> Any:
            create(*args)
            raise KeyboardInterrupt

        runtime._transport.create = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            runtime.sandboxes.create(vcpu=1)
    scripted.check()


def test_a_create_that_is_cancelled_leaves_nothing(scripted: Scripted) -> None:
    scripted.begin(
        [
            {"request": CREATE, "answer": {"endless": True}},
            {"request": CREATE, "answer": CREATED},
            {"request": REMOVE, "answer": {"json": {}}},
        ]
    )

    async def main() -> None:
        async with sealmark.AsyncRuntime("k", scripted.url) as runtime:
            task = asyncio.create_task(runtime.sandboxes.create(vcpu=1))
            async with asyncio.timeout(60):
                while await asyncio.to_thread(lambda: scripted._ask()["left"]) == 3:
                    await asyncio.sleep(0.01)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    asyncio.run(main())
    scripted.check()


def test_a_create_with_a_key_of_its_own_can_be_had_again(scripted: Scripted) -> None:
    scripted.begin([])
    with sealmark.Runtime("k", scripted.url) as runtime:

        def interrupted(*args: Any) -> Any:
            raise KeyboardInterrupt

        runtime._transport.create = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            runtime.sandboxes.create(vcpu=1, idempotency_key="mine")
        with pytest.raises(KeyboardInterrupt):
            runtime.sandboxes.get_or_create("name")
    scripted.check()


def test_a_command_that_is_interrupted_is_ended(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one without callbacks, whose output nobody has asked to follow."""
    lines = [{"type": "start", "processId": "p1"}, {"type": "stdout", "data": "x", "offset": 0}]
    path = "/v1/sandboxes/b1"
    body = {"command": "x", "timeoutMs": 60_000, "stream": True}
    kill = {"method": "POST", "path": f"{path}/processes/p1:signal", "body": {"signal": "SIGKILL"}}
    scripted.begin(
        [
            {
                "request": {"method": "POST", "path": f"{path}:exec", "body": body},
                "answer": {"lines": lines, "endless": True},
            },
            {"request": kill, "answer": {"json": {}}},
        ]
    )

    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Collector, "_keep", interrupted)
    with sealmark.Runtime("k", scripted.url) as runtime, pytest.raises(KeyboardInterrupt):
        sandbox(runtime).exec("x")
    scripted.check()


def test_a_terminal_of_a_process_has_a_size_in_either_guise(scripted: Scripted) -> None:
    path = "/v1/sandboxes/b1/processes"
    body = {"command": "x", "pty": {"cols": 80, "rows": 24}}
    request = {"method": "POST", "path": path, "body": body}
    scripted.begin([{"request": request, "answer": {"json": {"id": "p1"}}, "times": 2}])
    with sealmark.Runtime("k", scripted.url) as runtime:
        box = sandbox(runtime)
        box.spawn("x", pty=(80, 24))
        box.spawn("x", pty={"cols": 80, "rows": 24})
    scripted.check()
