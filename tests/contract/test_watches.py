# SPDX-License-Identifier: Apache-2.0
"""Watches of folders: by the public client; cursors, bounds, pauses and a dying server by HTTP."""

import asyncio
import io
import json
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from serving import Answer, Server


def watches(
    server: Server, sandbox: str, rest: str = "", body: Any = None, method: str = ""
) -> Answer:
    method = method or ("GET" if body is None else "POST")
    return server.ask(method, f"/v1/sandboxes/{sandbox}/files/watches{rest}", body)


def begin(server: Server, sandbox: str, **fields: Any) -> str:
    answer = watches(server, sandbox, body={"path": "/workspace", "batchMs": 0, **fields})
    assert answer.status == 201, answer.body
    return answer.json["id"]


def read(
    server: Server, sandbox: str, watch: str, last: str, cursor: int = 0
) -> list[dict[str, Any]]:
    """All events up to the one about this path."""
    events: list[dict[str, Any]] = []
    deadline = time.monotonic() + 60
    while not any(e["path"] == last for e in events):
        assert time.monotonic() < deadline, events
        got = watches(server, sandbox, f"/{watch}/events?cursor={cursor}&waitMs=10000").json
        assert got["lostBytes"] == 0 and got["notices"] == []
        assert not got["ended"]
        events += got["events"]
        cursor = got["nextCursor"]
    return events


def told(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(e["type"], e["path"]) for e in events]


# --- the public client ------------------------------------------------------------------------


def test_poll(box: Any) -> None:
    watch = box.files.watch("/workspace", recursive=True, exclude=["node_modules"], batch_ms=0)
    assert (watch.path, watch.exit_reason) == ("/workspace", None)
    box.exec("mkdir node_modules d && touch node_modules/x && echo a > d/a && mv d/a d/b && rm d/b")
    box.files.write("/workspace/whole", b"written")
    events: list[dict[str, Any]] = []
    while not any(e["path"] == "/workspace/whole" for e in events):
        events += watch.get_new_events(wait_ms=8000)
    assert ("create", "/workspace/d") in told(events)
    assert not [e for e in events if "node_modules" in e["path"] or "sealmark" in e["path"]]
    assert told(events)[-1] == ("create", "/workspace/whole")
    assert {e["path"]: e["isDir"] for e in events}["/workspace/d"] is True
    (listed,) = box.files.watches.list()
    assert (listed["id"], listed["path"], listed["recursive"]) == (watch.id, "/workspace", True)
    assert watch.stop() is True
    while watch.get_new_events(wait_ms=8000):
        pass
    assert (watch.exit_reason, watch.notices) == ("stopped", [])
    assert box.files.watches.list() == []
    assert box.files.watches.stop(watch.id) is False


def test_follow(box: Any) -> None:
    watch = box.files.watch("/workspace", batch_ms=0)
    seen: list[dict[str, Any]] = []

    def follow() -> None:
        for event in watch.events():
            seen.append(event)
            if event["path"].endswith("/last"):
                box.files.watches.stop(watch.id)

    thread = threading.Thread(target=follow)
    thread.start()
    box.exec("touch a; mv a b; chmod 600 b; touch last")
    thread.join(60)
    assert not thread.is_alive()
    assert watch.exit_reason == "stopped"
    renamed = next(e for e in seen if e["type"] == "rename")
    assert (renamed["oldPath"], renamed["path"]) == ("/workspace/a", "/workspace/b")
    assert ("create", "/workspace/a") in told(seen) and ("chmod", "/workspace/b") in told(seen)


def test_async(client_env: None) -> None:
    from withruntime import AsyncRuntime

    async def run() -> None:
        async with AsyncRuntime() as runtime:
            box = await runtime.sandboxes.create(memory_mib=256, timeout_seconds=300)
            async with box:
                watch = await box.files.watch("/tmp", events=["create"], batch_ms=0)
                await box.exec("touch /tmp/one && rm /tmp/one && touch /tmp/two")
                async for event in watch.events():
                    assert event["type"] == "create"
                    if event["path"] == "/tmp/two":
                        break
                assert len(await box.files.watches.list()) == 1
                assert await watch.stop() is True

    asyncio.run(run())


def test_archive_without_some_paths(box: Any) -> None:
    box.exec("mkdir -p p/keep p/node_modules/m p/sub/build && touch p/keep/a p/node_modules/m/x "
            "p/sub/build/y p/sub/z p/build")  # fmt: skip
    packed = box.files.archive("/workspace/p", exclude=["node_modules", "./sub/build/"])
    names = tarfile.open(fileobj=io.BytesIO(packed)).getnames()
    assert sorted(n.rstrip("/") for n in names) == ["build", "keep", "keep/a", "sub", "sub/z"]


# --- raw HTTP ---------------------------------------------------------------------------------


def test_cursors(server: Server, sandbox: str) -> None:
    watch = begin(server, sandbox, id="mine", events=["create", "remove"])
    assert watch == "mine"
    server.run(sandbox, "touch /workspace/a /workspace/b && rm /workspace/a")
    events = read(server, sandbox, watch, "/workspace/b")
    assert told(events)[:2] == [("create", "/workspace/a"), ("create", "/workspace/b")]
    # a cursor that was given out is where it goes on; any other loses no more than a record
    first = len("cf/workspace/a") + 1
    again = watches(server, sandbox, f"/{watch}/events?cursor={first}").json
    assert told(again["events"])[0] == ("create", "/workspace/b")
    odd = watches(server, sandbox, f"/{watch}/events?cursor={first - 3}").json
    assert told(odd["events"])[0] == ("create", "/workspace/b")
    far = watches(server, sandbox, f"/{watch}/events?cursor=99999").json
    assert far["events"] == []


def test_what_is_refused(server: Server, sandbox: str) -> None:
    server.run(sandbox, "touch /workspace/f")
    for fields, status, code in [
        ({"path": "relative"}, 400, "invalid_request"),
        ({"path": "/none"}, 404, "file_not_found"),
        ({"path": "/workspace/f"}, 409, "not_a_directory"),
        ({"path": "/root"}, 403, "permission_denied"),
        ({"path": "/tmp", "events": ["access"]}, 400, "invalid_request"),
        ({"path": "/tmp", "exclude": ["x" * 5000]}, 400, "invalid_request"),
        ({"path": "/tmp", "id": "No"}, 400, "invalid_request"),
        ({"path": "/tmp", "webhook": True}, 501, "unavailable"),
    ]:
        answer = watches(server, sandbox, body=fields)
        assert (answer.status, answer.code) == (status, code), (fields, answer.body)
    for rest, method in [
        ("/none/events", "GET"),
        ("/none/events?follow=1", "GET"),
        ("/none", "DELETE"),
    ]:
        answer = watches(server, sandbox, rest, method=method)
        assert (answer.status, answer.code) == (404, "not_found")
    watch = begin(server, sandbox, id="once")
    again = watches(server, sandbox, body={"path": "/tmp", "id": "once"})
    assert (again.status, again.code) == (409, "already_exists")
    # a watch is no process
    box = f"/v1/sandboxes/{sandbox}/processes"
    assert server.ask("GET", box).json["data"] == []
    assert server.ask("GET", f"{box}/watch-{watch}/output").status == 404
    for exclude in ["/abs", "../x", "x" * 9000]:
        answer = server.ask(
            "GET", f"/v1/sandboxes/{sandbox}/files/archive?path=/tmp&exclude={exclude}"
        )
        assert (answer.status, answer.code) == (400, "invalid_request"), exclude


def test_too_many(server: Server, sandbox: str) -> None:
    made = [begin(server, sandbox) for _ in range(16)]
    answer = watches(server, sandbox, body={"path": "/workspace"})
    assert (answer.status, answer.code) == (503, "guest_busy")
    assert watches(server, sandbox, f"/{made[0]}", method="DELETE").json == {"stopped": True}
    while not watches(server, sandbox, f"/{made[0]}/events?waitMs=10000").json["ended"]:
        pass
    begin(server, sandbox)


def test_too_many_folders(server: Server, sandbox: str) -> None:
    server.run(sandbox, "mkdir -p /workspace/{a,b,c,d}/{1,2,3}")
    watch = begin(server, sandbox, recursive=True, maxWatches=4)
    got = watches(server, sandbox, f"/{watch}/events?waitMs=10000").json
    assert got["notices"] == [{"k": "limit"}]


def test_its_own_ends(server: Server, sandbox: str) -> None:
    server.run(sandbox, "mkdir /workspace/d")
    gone = begin(server, sandbox, path="/workspace/d")
    late = begin(server, sandbox, timeoutMs=1)
    server.run(sandbox, "rmdir /workspace/d")
    for watch, reason in [(gone, "root-removed"), (late, "timeout")]:
        answer = watches(server, sandbox, f"/{watch}/events?follow=true")
        last = json.loads(answer.body.splitlines()[-1])
        assert (last["k"], last["reason"]) == ("end", reason)
    assert watches(server, sandbox).json["data"] == []


def test_a_flood_is_bounded(server: Server, sandbox: str) -> None:
    """The monitor keeps the newest; what is gone is said, and so is what the kernel lost."""
    watch = begin(server, sandbox)
    long = "n" * 200
    done = server.run(
        sandbox,
        f"cd /workspace; for i in $(seq 4000); do echo > {long}$i; done",
        timeoutMs=60000,
    )
    assert done["exitCode"] == 0
    server.run(sandbox, "touch /workspace/last")
    cursor, lost, seen = 0, 0, []
    deadline = time.monotonic() + 60
    while "/workspace/last" not in seen[-50:]:
        assert time.monotonic() < deadline
        got = watches(server, sandbox, f"/{watch}/events?cursor={cursor}&waitMs=10000").json
        cursor = got["nextCursor"]
        lost += got["lostBytes"] + len(got["notices"])
        seen += [e["path"] for e in got["events"]]
    assert lost > 0
    assert all(p.startswith("/workspace/") for p in seen)


def test_it_survives_the_server(own_server: Callable[..., Server]) -> None:
    server = own_server()
    box = server.create()
    watch = begin(server, box)
    server.run(box, "touch /workspace/a")
    server.kill()
    server.start()
    assert [w["id"] for w in watches(server, box).json["data"]] == [watch]
    server.run(box, "touch /workspace/b")
    events = told(read(server, box, watch, "/workspace/b"))
    assert ("create", "/workspace/a") in events
    server.ask("DELETE", f"/v1/sandboxes/{box}")


@pytest.fixture
def pausable(server: Server) -> Iterator[str]:
    made = server.create(pausable=True)
    yield made
    server.ask("DELETE", f"/v1/sandboxes/{made}")


def test_it_lasts_through_a_pause(server: Server, pausable: str) -> None:
    watch = begin(server, pausable)
    server.run(pausable, "touch /workspace/a")
    read(server, pausable, watch, "/workspace/a")
    assert server.ask("POST", f"/v1/sandboxes/{pausable}:pause", {}).status in (200, 202)
    answer = watches(server, pausable, f"/{watch}/events?follow=true")
    lines = [json.loads(line) for line in answer.body.splitlines()]
    kinds = [line["k"] for line in lines]
    assert kinds == ["events"] * (len(lines) - 1) + ["paused"]
    assert server.ask("POST", f"/v1/sandboxes/{pausable}:wake", {}).status in (200, 202)
    server.run(pausable, "touch /workspace/b")
    events = read(server, pausable, watch, "/workspace/b", lines[-1]["cursor"])
    assert ("create", "/workspace/b") in told(events)


def test_a_sandbox_that_ends_ends_the_stream(server: Server) -> None:
    box = server.create()
    watch = begin(server, box)
    stream = server.open("GET", f"/v1/sandboxes/{box}/files/watches/{watch}/events?follow=true")
    server.run(box, "touch /workspace/a")
    assert json.loads(stream.readline())["k"] == "events"
    server.ask("DELETE", f"/v1/sandboxes/{box}")
    while (line := json.loads(stream.readline()))["k"] == "events":
        pass
    assert line["k"] == "failure" and line["status"] in (404, 409)
    stream.close()
