# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that are paused, woken, started afresh; by whom, and what it leaves as it was."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from serving import RULE_AUTO_WAKE, RULE_PAUSE, Server
from support import wait_until


def get(server: Server, box: str) -> Any:
    return server.ask("GET", f"/v1/sandboxes/{box}").json


def post(server: Server, box: str, verb: str, body: Any = None) -> Any:
    return server.ask("POST", f"/v1/sandboxes/{box}:{verb}", body or {})


def wait_for(server: Server, box: str, state: str) -> Any:
    seen = server.ask("GET", f"/v1/sandboxes/{box}?waitFor={state}&timeoutSeconds=60").json
    assert seen["state"] == state, seen
    return seen


def machine_of(server: Server) -> str:
    """The only machine there is."""
    (machine,) = [d.name for d in (server.home / "sandboxes").iterdir()]
    return machine


def jiffies(machine: str) -> int:
    """CPU time that all processes of a machine have used on the host."""
    for path in Path("/sys/fs/cgroup").glob(f"**/sealmark/{machine}/cpuacct.usage"):
        return int(path.read_text())
    for path in Path("/sys/fs/cgroup").glob(f"**/sealmark/{machine}/cpu.stat"):
        return int(path.read_text().split()[1])
    pytest.skip("its CPU time is counted nowhere")


def test_a_pause_keeps_everything(runtime: Any) -> None:
    """The public client's pause and wake; what ran goes on where it was."""
    with runtime.sandboxes.create(memory_mib=512, timeout_seconds=300) as box:
        assert box.exec("echo kept > file; echo 41 > /tmp/n").exit_code == 0
        box.pause()
        assert box.state == "paused"
        assert box.info["status"] == "paused"
        assert box.info["pausedAt"] < box.info["pausedExpiresAt"]
        box.pause()  # again is no error
        box.wake()
        assert (box.state, box.info["pausedAt"]) == ("running", None)
        box.wake()  # nor is this, to the client
        assert box.exec("cat file /tmp/n").stdout == "kept\n41\n"
        box.pause()
        assert box.exec("cat file").stdout == "kept\n"  # autoWake
        assert box.refresh().state == "running"


def test_nothing_runs_while_it_is_paused(own_server: Callable[..., Server]) -> None:
    """Also a process that only computes, which the machine itself does not hold."""
    server = own_server()
    box = server.create(memoryMiB=128)
    busy = "timeout 20 sh -c 'while :; do :; done' & echo; sleep 20"
    body = {"command": busy, "timeoutMs": 25000, "stream": True}
    with server.open("POST", f"/v1/sandboxes/{box}:exec", body) as response:
        assert b"start" in response.readline()
        assert response.readline()  # its output: it runs now
        assert post(server, box, "pause").json["state"] == "paused"
        before = jiffies(box)
        time.sleep(0.3)  # what is measured is that nothing happens meanwhile
        assert jiffies(box) == before
        assert post(server, box, "wake").json["state"] == "running"
        assert server.run(box, "echo awake")["stdout"] == "awake\n"
        assert jiffies(box) > before


def test_without_auto_wake_requests_are_refused(server: Server) -> None:
    box = server.create(memoryMiB=128, autoWake=False)
    assert post(server, box, "pause").status == 200
    refused = [
        post(server, box, "exec", {"command": "true"}),
        server.ask("GET", f"/v1/sandboxes/{box}/files/list?path=/"),
        post(server, box, "extend", {"seconds": 60}),
    ]
    assert [(r.status, r.code) for r in refused] == [(409, "sandbox_paused")] * 3
    assert get(server, box)["state"] == "paused"
    # settings do not wake it either; this one lets the next request do so
    assert post(server, box, "update", {"autoWake": True}).json["state"] == "paused"
    assert server.run(box, "echo 1")["stdout"] == "1\n"
    assert server.ask("DELETE", f"/v1/sandboxes/{box}").status == 200


def test_wake_gives_a_new_lease(server: Server) -> None:
    box = server.create(memoryMiB=128, timeoutSeconds=60)
    first = get(server, box)["expiresAt"]
    assert post(server, box, "wake").code == "not_paused"
    post(server, box, "pause")
    woken = post(server, box, "wake", {"timeoutSeconds": 3600}).json
    assert woken["expiresAt"] > first
    listed = server.ask("GET", "/v1/sandboxes?state=paused").json["data"]
    assert box not in [s["id"] for s in listed]
    post(server, box, "pause")
    listed = server.ask("GET", "/v1/sandboxes?state=paused").json["data"]
    assert box in [s["id"] for s in listed]
    # also what is paused can be stopped, and is nothing but stopped then
    assert post(server, box, "stop").json["state"] == "stopped"
    assert (post(server, box, "wake").code, post(server, box, "pause").code) == (
        "sandbox_stopped",
        "sandbox_stopped",
    )


def test_what_is_not_pausable_is_not_paused(server: Server) -> None:
    box = server.create(memoryMiB=128, pausable=False)
    record = get(server, box)
    assert (record["onLeaseEnd"], record["idlePauseSeconds"]) == ("stop", 0)
    refused = post(server, box, "pause")
    assert (refused.status, refused.code) == (409, "not_pausable")
    wrong = server.ask(
        "POST",
        "/v1/sandboxes",
        {"pausable": False, "idlePauseSeconds": 9, "onLeaseEnd": "pause"},
    )
    paths = [issue["path"] for issue in wrong.json["error"]["details"]["issues"]]
    assert sorted(set(paths)) == ["idlePauseSeconds", "onLeaseEnd"]
    assert server.ask("DELETE", f"/v1/sandboxes/{box}").status == 200


def test_it_pauses_by_itself_with_the_server_dead(own_server: Callable[..., Server]) -> None:
    server = own_server()
    box = server.create(memoryMiB=128, idlePauseSeconds=10)
    server.run(box, "echo kept > file")
    server.kill()
    server.set_rules(box, RULE_AUTO_WAKE, idle=100)
    wait_until((server.home / "paused" / box).exists, "the machine to pause by itself")
    server.start()
    seen = get(server, box)
    assert (seen["state"], seen["stopReason"]) == ("paused", None)
    assert server.run(box, "cat file")["stdout"] == "kept\n"
    assert get(server, box)["state"] == "running"


def test_what_a_lease_ends_in(own_server: Callable[..., Server]) -> None:
    server = own_server()
    kept, stopped = server.create(memoryMiB=128), server.create(memoryMiB=128, onLeaseEnd="stop")
    assert get(server, kept)["onLeaseEnd"] == "pause"
    for box in (kept, stopped):
        # as the server set them, but for the time that is left
        server.set_rules(box, RULE_PAUSE if box == kept else 0, left=100)
    assert wait_for(server, stopped, "stopped")["stopReason"] == "lease_expired"
    assert wait_for(server, kept, "paused")["endedAt"] is None
    assert post(server, kept, "wake").json["state"] == "running"


def test_paused_for_too_long(own_server: Callable[..., Server]) -> None:
    server = own_server("--paused-most", "5")
    box = server.create(memoryMiB=128)
    assert post(server, box, "pause").json["state"] == "paused"
    assert server.stopped(box)["stopReason"] == "paused_expired"
    # the keeper clears up after it has left word of the end
    wait_until(lambda: not list((server.home / "paused").iterdir()), "the keeper to clear up")


def test_an_update_reaches_the_monitor(own_server: Callable[..., Server]) -> None:
    server = own_server()
    box = server.create(memoryMiB=128, timeoutSeconds=300, persistent=True)
    changed = post(server, box, "update", {"idlePauseSeconds": 10, "persistent": False})
    assert (changed.json["idlePauseSeconds"], changed.json["persistent"]) == (10, False)
    assert changed.json["state"] == "running"
    assert wait_for(server, box, "paused")
    changed = post(server, box, "update", {"timeoutSeconds": 60, "onLeaseEnd": "stop"})
    assert changed.json["state"] == "paused"
    assert post(server, box, "wake").json["timeoutSeconds"] == 60
    assert post(server, box, "update", {"idlePauseSeconds": 3}).status == 400


def test_a_persistent_lease_renews_itself(own_server: Callable[..., Server]) -> None:
    server = own_server()
    box = server.create(memoryMiB=128, persistent=True, timeoutSeconds=600)
    # the record believes that the lease has ended; the monitor knows better, and is asked
    with sqlite3.connect(server.home / "sealmark.db", timeout=60) as db:
        db.execute("UPDATE sandbox SET expires_ms = 1 WHERE id = ?", (box,))
    db.close()
    seen = get(server, box)
    assert (seen["state"], seen["persistent"]) == ("running", True)
    assert seen["expiresAt"] > seen["createdAt"]


def test_restart_is_afresh(own_server: Callable[..., Server]) -> None:
    server = own_server()
    box = server.create(memoryMiB=128, env={"A": "1"}, labels={"x": "y"})
    server.run(box, "echo lost > file")
    again = server.ask(
        "POST", f"/v1/sandboxes/{box}:restart", {}, headers={"Prefer": "wait=60"}
    ).json
    assert (again["id"], again["state"], again["labels"]) == (box, "running", {"x": "y"})
    assert server.run(box, "cat file; echo $A")["stdout"] == "1\n"
    post(server, box, "stop")
    again = server.ask(
        "POST", f"/v1/sandboxes/{box}:restart", {}, headers={"Prefer": "wait=60"}
    ).json
    assert (again["state"], again["stopReason"], again["endedAt"]) == ("running", None, None)
    post(server, box, "pause")
    assert post(server, box, "restart").status == 200
    # a server that dies meanwhile has the next one do it
    server.kill()
    server.start()
    assert wait_for(server, box, "running")
    assert server.run(box, "echo 1")["stdout"] == "1\n"
    assert post(server, box, "stop").json["stopReason"] == "requested"
    wait_until(lambda: not list((server.home / "sandboxes").iterdir()), "both machines to go")


def test_paused_ones_need_memory_and_no_cpu(own_server: Callable[..., Server]) -> None:
    server = own_server("--memory", "256", "--vcpu", "1")
    box = server.create(memoryMiB=128)
    body = {"memoryMiB": 128}
    refused = server.ask("POST", "/v1/sandboxes", body)
    assert (refused.code, refused.json["error"]["details"]["limit"]) == (
        "no_capacity",
        "sandbox.vcpu",
    )
    assert post(server, box, "pause").status == 200
    other = server.create(memoryMiB=128)
    woken = post(server, box, "wake")
    assert (woken.status, woken.code) == (409, "no_capacity")
    assert woken.json["error"]["retryAfterMs"] > 0
    # a request for it waits as a create does: it is told that there is no room
    assert post(server, box, "exec", {"command": "true"}).code == "no_capacity"
    assert server.ask("POST", "/v1/sandboxes", body).json["error"]["details"]["limit"] == (
        "sandbox.memory_mib"
    )
    assert post(server, other, "stop").status == 200
    assert post(server, box, "wake").status == 200
