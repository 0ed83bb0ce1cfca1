# SPDX-License-Identifier: Apache-2.0
"""Processes: spawned by the public client; cursors, retries and a dying server by raw HTTP."""

import asyncio
import base64
import json
import re
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from serving import Answer, Server
from support import below


def spawn(server: Server, sandbox: str, command: str, **fields: Any) -> dict[str, Any]:
    body = {"command": command, **fields}
    answer = server.ask("POST", f"/v1/sandboxes/{sandbox}/processes", body)
    assert answer.status == 201, answer.body
    return answer.json


def about(server: Server, sandbox: str, process: str, rest: str = "", body: Any = None) -> Answer:
    method = "GET" if body is None else "POST"
    return server.ask(method, f"/v1/sandboxes/{sandbox}/processes/{process}{rest}", body)


def ended(server: Server, sandbox: str, process: str) -> dict[str, Any]:
    """Its record once it has ended; the output route waits for that."""
    cursor = 0
    deadline = time.monotonic() + 60
    while True:
        read = about(server, sandbox, process, f"/output?cursor={cursor}&waitMs=10000").json
        cursor = read["nextCursor"]
        if read["process"]["state"] != "running" and cursor >= read["process"]["outputBytes"]:
            return read["process"]
        assert time.monotonic() < deadline


def followed(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    return [json.loads(line) for line in answer.body.splitlines()]


# --- the public client ------------------------------------------------------------------------


def test_spawn(box: Any) -> None:
    process = box.spawn("echo out; echo err >&2; exit 3", cwd="/tmp", env={"A": "b"})
    result = process.wait()
    assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert (process.state, process.exit_code) == ("exited", 3)
    info = process.refresh()
    assert info["command"] == "bash -c echo out; echo err >&2; exit 3"
    assert (info["cwd"], info["user"], info["outputBytes"]) == ("/tmp", "sandbox", 8)
    assert info["startedAt"] <= info["endedAt"]
    assert [p["id"] for p in box.processes()] == [process.id]
    assert box.process(process.id).wait().stdout == "out\n"


def test_spawn_async(client_env: None) -> None:
    from withruntime import AsyncRuntime

    async def run() -> None:
        async with AsyncRuntime() as runtime:
            box = await runtime.sandboxes.create(memory_mib=256, timeout_seconds=300)
            async with box:
                process = await box.spawn(["cat"], stdin="pipe")
                await process.write("one\n")
                await process.write("two\n", eof=True)
                result = await process.wait()
                assert (result.exit_code, result.stdout) == (0, "one\ntwo\n")

    asyncio.run(run())


def test_input_is_written_once(box: Any) -> None:
    process = box.spawn("wc -c", stdin="pipe")
    process.write(b"x" * 3_000_000)
    process.write(b"", eof=True)
    assert process.wait().stdout.strip() == "3000000"
    given = box.spawn("wc -c", stdin="x" * 1_000_000)
    assert given.wait().stdout.strip() == "1000000"


def test_signals(box: Any) -> None:
    from withruntime import ConflictError

    process = box.spawn("trap 'echo caught; exit 5' TERM; echo on; while :; do sleep 0.1; done")
    events = process.output()
    assert next(events)["data"] == "on\n"
    process.kill()  # to all of it, so that bash also says that its sleep was ended
    assert "caught\n" in [e.get("data") for e in events]
    assert process.refresh()["exitCode"] == 5
    killed = box.spawn(["sleep", "1000"])
    killed.kill("SIGKILL")
    result = killed.wait()
    assert (result.exit_code, killed.state) == (None, "killed")
    with pytest.raises(ConflictError) as refused:
        killed.kill()
    assert refused.value.code == "not_running"


def test_a_time_limit(box: Any) -> None:
    process = box.spawn("echo begun; sleep 1000", timeout_ms=5000)
    result = process.wait()
    assert (result.timed_out, result.exit_code, result.stdout) == (True, None, "begun\n")
    assert process.state == "timed_out"


def test_programs_that_are_not_there(box: Any) -> None:
    from withruntime import InvalidRequestError

    missing = box.spawn(["/no/such"])
    result = missing.wait()
    assert (result.exit_code, missing.state) == (127, "exited")
    assert "/no/such" in result.stderr
    assert box.spawn(["/etc/passwd"]).wait().exit_code == 126
    with pytest.raises(InvalidRequestError) as refused:
        box.spawn("true", cwd="/no/such")
    assert refused.value.details["issues"][0]["path"] == "cwd"
    assert len(box.processes()) == 2


def test_bytes_are_kept(box: Any) -> None:
    process = box.spawn(r"printf 'a\377\0\303'; sleep 0.1; printf '\251'", output_encoding="base64")
    pieces = [e["data"] for e in process.output_bytes() if e["type"] == "stdout"]
    assert b"".join(pieces) == b"a\xff\x00\xc3\xa9"


def read_until(events: Any, wanted: str) -> str:
    text = ""
    while wanted not in text:
        text += next(events).get("data", "")
    return text


def test_a_terminal_process(box: Any) -> None:
    process = box.spawn(
        ["bash", "--norc", "-i"], pty={"cols": 100, "rows": 30}, env={"PS1": "<prompt>"}
    )
    events = process.output()
    read_until(events, "<prompt>")
    process.write("stty size; tty; echo $TERM; sh -c \"echo rea''dy; exec sleep 1000\"\n")
    text = read_until(events, "ready\r\n")
    assert "30 100" in text and "/dev/pts/" in text and "xterm-256color" in text
    process.resize(90, 20)
    process.write("\x03")  # interrupts the sleep only: job control is there
    read_until(events, "<prompt>")
    process.write("stty size; exit 7\n")
    assert "20 90" in "".join(e.get("data", "") for e in events)
    assert process.refresh()["exitCode"] == 7


def test_the_end_of_a_terminals_input(box: Any) -> None:
    process = box.spawn(["cat"], pty={"cols": 80, "rows": 24})
    process.write("line\n", eof=True)
    result = process.wait()
    assert result.exit_code == 0
    assert result.stdout == "line\r\nline\r\n"


# --- raw HTTP ---------------------------------------------------------------------------------


def test_cursors(server: Server, sandbox: str) -> None:
    process = spawn(server, sandbox, "printf abc; printf déf >&2; sleep 1000")["id"]
    read = about(server, sandbox, process, "/output?cursor=0&waitMs=20000").json
    while read["nextCursor"] < 7:
        read = about(server, sandbox, process, "/output?cursor=0&waitMs=20000").json
    assert [(c["stream"], c["text"], c["offset"]) for c in read["chunks"]] == [
        ("stdout", "abc", 0),
        ("stderr", "déf", 3),
    ]
    assert (read["nextCursor"], read["droppedBytes"]) == (7, 0)
    read = about(server, sandbox, process, "/output?cursor=2").json
    assert [c["text"] for c in read["chunks"]] == ["c", "déf"]
    # within a letter: its rest is no text, but its bytes are there
    chunk = about(server, sandbox, process, "/output?cursor=5").json["chunks"][0]
    assert base64.b64decode(chunk["base64"]) == "déf".encode()[2:]
    read = about(server, sandbox, process, "/output?cursor=7&waitMs=1").json
    assert (read["chunks"], read["nextCursor"], read["process"]["state"]) == ([], 7, "running")
    assert about(server, sandbox, process, ":signal", {"signal": "9"}).json["id"] == process
    assert ended(server, sandbox, process)["signal"] == 9


def test_old_output_is_dropped_and_counted(server: Server, sandbox: str) -> None:
    process = spawn(server, sandbox, "yes 0123456789 | head -c 20000000")["id"]
    assert ended(server, sandbox, process)["outputBytes"] == 20_000_000
    events = followed(about(server, sandbox, process, "/output?follow=true&cursor=11"))
    assert events[0]["type"] == "truncated"
    assert events[0]["resumeAt"] - events[0]["droppedBytes"] == 11
    kept = "".join(e["data"] for e in events[1:-1])
    assert 900_000 < len(kept) <= 1_048_576
    assert events[0]["resumeAt"] + len(kept) == 20_000_000
    assert kept.endswith("0123456789\n") or len(kept) % 11
    assert (events[-1]["type"], events[-1]["exitCode"]) == ("exit", 0)


def test_input_by_offsets(server: Server, sandbox: str) -> None:
    process = spawn(server, sandbox, "cat", stdinMode="pipe")["id"]

    def write(**body: Any) -> Answer:
        return about(server, sandbox, process, ":write", body)

    assert write(data="abc", offset=0).json == {"offset": 3, "stdinOpen": True}
    assert write(data="abc", offset=0).json["offset"] == 3
    assert write(data="bcd", offset=1).json["offset"] == 4
    assert write(base64="ZQ==").json["offset"] == 5  # without one: after the rest
    gap = write(data="x", offset=9)
    assert (gap.status, gap.code) == (400, "invalid_request")
    assert gap.json["error"]["details"]["issues"][0]["path"] == "offset"
    assert write(data="f", offset=5, eof=True).json == {"offset": 6, "stdinOpen": False}
    assert write(data="f", offset=5, eof=True).json["offset"] == 6
    assert write(data="more").code == "stdin_closed"
    ended(server, sandbox, process)
    chunks = about(server, sandbox, process, "/output").json["chunks"]
    assert "".join(c["text"] for c in chunks) == "abcdef"


def test_what_is_refused(server: Server, sandbox: str) -> None:
    process = spawn(server, sandbox, "sleep 1000")["id"]
    other = str(uuid.uuid4())
    for rest, body, status, code in [
        (":signal", {"signal": "SIGNONE"}, 400, "invalid_request"),
        (":resize", {"cols": 0, "rows": 1}, 400, "invalid_request"),
        (":resize", {"cols": 80, "rows": 24}, 409, "no_terminal"),
        (":write", {"data": "x"}, 409, "stdin_closed"),
        (":write", {"base64": "x"}, 400, "invalid_request"),
        (":write", {"base64": "", "data": ""}, 400, "invalid_request"),
        ("/output?cursor=-1", None, 400, "invalid_request"),
    ]:
        answer = about(server, sandbox, process, rest, body)
        assert (answer.status, answer.code) == (status, code), (rest, body)
    for rest, body in [("", None), ("/output", None), ("/output?follow=1", None), (":signal", {})]:
        answer = about(server, sandbox, other, rest, body)
        assert (answer.status, answer.code) in [(404, "not_found"), (400, "invalid_request")]
    for fields in [{"argv": ["x"]}, {"stdin": "x", "stdinMode": "pipe"}, {"pty": {"cols": 1}}]:
        answer = server.ask(
            "POST", f"/v1/sandboxes/{sandbox}/processes", {"command": "true", **fields}
        )
        assert (answer.status, answer.code) == (400, "invalid_request"), fields


def test_too_many_at_once(server: Server, sandbox: str) -> None:
    for _ in range(48):
        spawn(server, sandbox, "sleep 1000")
    answer = server.ask("POST", f"/v1/sandboxes/{sandbox}/processes", {"command": "true"})
    assert (answer.status, answer.code) == (503, "guest_busy")
    assert server.run(sandbox, "echo 1")["stdout"] == "1\n"
    listed = server.ask("GET", f"/v1/sandboxes/{sandbox}/processes").json["data"]
    assert len(listed) == 48
    assert about(server, sandbox, listed[0]["id"], ":signal", {"signal": "KILL"}).status == 200
    assert ended(server, sandbox, listed[0]["id"])["state"] == "killed"
    spawn(server, sandbox, "true")


def test_floods_of_many(server: Server, sandbox: str) -> None:
    """What a monitor keeps is bounded, and it listens to others meanwhile."""
    noisy = [spawn(server, sandbox, "yes & yes >&2")["id"] for _ in range(12)]
    unread = server.open(
        "POST", f"/v1/sandboxes/{sandbox}:exec", {"command": "yes & yes >&2", "stream": True}
    )
    least = 0
    while least < 1_500_000:
        listed = server.ask("GET", f"/v1/sandboxes/{sandbox}/processes").json["data"]
        least = min(p["outputBytes"] for p in listed if p["id"] in noisy)
    assert server.run(sandbox, "echo 1")["stdout"] == "1\n"
    (keeper,) = server.keeper(sandbox)
    monitors = 0
    for child in below(keeper, 1):
        with suppress(OSError):  # of the machine, some come and go
            status = Path(f"/proc/{child}/status").read_text()
            if status.startswith("Name:\tsealmark-mon"):
                peak = re.search(r"VmHWM:\s+(\d+) kB", status)
                assert peak and int(peak[1]) < 100_000
                monitors += 1
    assert monitors
    for process in noisy:
        assert about(server, sandbox, process, ":signal", {"signal": "SIGKILL"}).status == 200
    unread.close()


def test_they_survive_the_server(own_server: Callable[..., Server]) -> None:
    server = own_server()
    box = server.create()
    process = spawn(server, box, "while read x; do echo got $x; done", stdinMode="pipe")["id"]
    assert about(server, box, process, ":write", {"data": "1\n", "offset": 0}).status == 200
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"command": "sleep 1000"}
    made = server.ask("POST", f"/v1/sandboxes/{box}/processes", body, headers=headers).json["id"]
    server.kill()
    server.start()
    again = server.ask("POST", f"/v1/sandboxes/{box}/processes", body, headers=headers).json
    assert (again["id"], again["replayed"]) == (made, True)
    listed = server.ask("GET", f"/v1/sandboxes/{box}/processes").json["data"]
    assert [(p["id"], p["state"]) for p in listed] == [(process, "running"), (made, "running")]
    # sent again, as a client would that had no answer
    assert about(server, box, process, ":write", {"data": "1\n", "offset": 0}).json["offset"] == 2
    body = {"data": "2\n", "offset": 2, "eof": True}
    assert about(server, box, process, ":write", body).json["offset"] == 4
    events = followed(about(server, box, process, "/output?follow=true"))
    assert "".join(e.get("data", "") for e in events) == "got 1\ngot 2\n"
    assert (events[-1]["type"], events[-1]["exitCode"]) == ("exit", 0)
    server.ask("DELETE", f"/v1/sandboxes/{box}")


def test_a_stream_that_was_cut_off_is_followed(own_server: Callable[..., Server]) -> None:
    """An exec whose reader is gone runs on, and is found by its id."""
    server = own_server()
    box = server.create()
    stream = server.open("POST", f"/v1/sandboxes/{box}:exec", {
        "command": "echo one; while ! test -e /tmp/go; do sleep 0.05; done; echo two; exit 9",
        "stream": True,
    })  # fmt: skip
    start = json.loads(stream.readline())
    assert json.loads(stream.readline())["data"] == "one\n"
    server.kill()
    stream.close()
    server.start()
    assert server.run(box, "touch /tmp/go")["exitCode"] == 0
    rest = followed(about(server, box, start["processId"], "/output?follow=true&cursor=4"))
    assert [e["type"] for e in rest] == ["stdout", "exit"]
    assert (rest[0]["data"], rest[0]["offset"], rest[1]["exitCode"]) == ("two\n", 4, 9)
    server.ask("DELETE", f"/v1/sandboxes/{box}")


def test_a_sandbox_that_ends_ends_them(server: Server) -> None:
    box = server.create()
    process = spawn(server, box, "sleep 1000")["id"]
    stream = server.open("GET", f"/v1/sandboxes/{box}/processes/{process}/output?follow=true")
    assert server.ask("POST", f"/v1/sandboxes/{box}:stop", {}).status == 200
    last = json.loads(stream.read().splitlines()[-1])
    assert (last["type"], last["error"]["code"]) == ("error", "sandbox_stopped")
    assert about(server, box, process).code == "sandbox_stopped"


def test_they_are_paused_with_their_sandbox(server: Server) -> None:
    """They can be looked at without waking it; what is written to one wakes it."""
    box = server.create()
    process = spawn(server, box, "read x; echo got $x; sleep 1000", stdinMode="pipe")["id"]
    assert server.ask("POST", f"/v1/sandboxes/{box}:pause", {}).json["state"] == "paused"
    listed = server.ask("GET", f"/v1/sandboxes/{box}/processes")
    assert [(p["id"], p["state"]) for p in listed.json["data"]] == [(process, "running")]
    assert about(server, box, process, "/output").json["nextCursor"] == 0
    assert server.ask("GET", f"/v1/sandboxes/{box}").json["state"] == "paused"
    assert about(server, box, process, ":write", {"data": "1\n", "offset": 0}).json["offset"] == 2
    read = about(server, box, process, "/output?waitMs=30000").json
    assert "".join(c["text"] for c in read["chunks"]) == "got 1\n"
    assert server.ask("GET", f"/v1/sandboxes/{box}").json["state"] == "running"
    server.ask("DELETE", f"/v1/sandboxes/{box}")
