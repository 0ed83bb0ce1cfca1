# SPDX-License-Identifier: Apache-2.0
"""Sandboxes and their server: killed, started again, ended by all that can end them."""

import fcntl
import os
import shutil
import signal
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from serving import Answer, Server
from support import BUILD, wait_until


def test_a_killed_server_finds_its_sandboxes(own_server: Callable[..., Server]) -> None:
    server = own_server()
    boxes = [server.create(memoryMiB=128, labels={"n": str(i)}) for i in range(3)]
    server.run(boxes[0], "echo kept > file")
    server.kill()
    server.start()
    seen = server.ask("GET", "/v1/sandboxes").json["data"]
    assert [(s["id"], s["state"]) for s in seen] == [(b, "running") for b in boxes]
    assert server.run(boxes[0], "cat file")["stdout"] == "kept\n"
    assert server.ask("POST", f"/v1/sandboxes/{boxes[1]}:stop", {}).json["state"] == "stopped"
    assert server.ask("POST", f"/v1/sandboxes/{boxes[2]}:extend", {"seconds": 60}).status == 200


def test_a_lease_ends_while_the_server_is_dead(own_server: Callable[..., Server]) -> None:
    server = own_server()
    box = server.create(onLeaseEnd="stop")
    server.kill()
    server.shorten_lease(box, 100)
    server.start()
    end = server.stopped(box)
    assert (end["stopReason"], end["stopDetail"]) == ("lease_expired", "its lease has ended")
    assert not list((server.home / "sandboxes").iterdir())


def test_a_lease_ends_while_somebody_waits(own_server: Callable[..., Server]) -> None:
    server = own_server()
    box, deleted = server.create(onLeaseEnd="stop"), server.create(onLeaseEnd="delete")
    server.shorten_lease(box, 300)
    answer = server.ask("POST", f"/v1/sandboxes/{box}:exec", {"command": "sleep 100"})
    assert (answer.status, answer.code) == (409, "sandbox_stopped")
    assert answer.json["error"]["details"]["stopReason"] == "lease_expired"
    assert server.stopped(box)["stopReason"] == "lease_expired"
    server.shorten_lease(deleted, 100)
    path = f"/v1/sandboxes/{deleted}"
    wait_until(lambda: server.ask("GET", path).status == 404, "the record to be deleted")


def test_a_guest_that_ends_itself(own_server: Callable[..., Server]) -> None:
    server = own_server()
    box = server.create()
    argv = ["python3", "-c", "import ctypes; ctypes.CDLL(None).reboot(0x4321FEDC)"]
    body = {"argv": argv, "user": "root"}  # power off
    answer = server.ask("POST", f"/v1/sandboxes/{box}:exec", body)
    assert answer.code == "sandbox_stopped"
    assert server.stopped(box)["stopReason"] == "host_lost"


def test_a_killed_keeper_is_noticed(own_server: Callable[..., Server]) -> None:
    server = own_server("--sandboxes", "1")
    box = server.create()
    os.kill(server.keeper(box)[0], signal.SIGKILL)
    # asked again and again: it is noticed without anybody who waits for it
    path = f"/v1/sandboxes/{box}"
    wait_until(lambda: server.ask("GET", path).json["state"] == "stopped", "its end to be noticed")
    assert server.ask("GET", path).json["stopReason"] == "host_lost"
    assert server.create(memoryMiB=128)  # its place is free again


def test_a_server_that_ends_leaves_nothing_of_a_killed_keeper(
    own_server: Callable[..., Server],
) -> None:
    """The machine's other processes are over only when the server has been told to end."""
    server = own_server("--sandboxes", "1")
    box = server.create()
    keeper = server.keeper(box)[0]
    below = [int(pid) for pid in Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()]
    assert below
    for pid in below:
        os.kill(pid, signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while server.ask("GET", f"/v1/sandboxes/{box}").json["state"] != "stopped":
        assert time.monotonic() < deadline, "the server does not notice"
    assert server.process
    server.process.terminate()
    for pid in below:
        with suppress(ProcessLookupError):  # it may be killed with its parent, stopped or not
            os.kill(pid, signal.SIGCONT)
    assert server.process.wait(60) == 0
    assert not list(Path("/sys/fs/cgroup").glob(f"**/sealmark/{box}"))
    assert not (server.home / "sandboxes" / box).exists()


def test_a_killed_keeper_is_noticed_when_nobody_asks(own_server: Callable[..., Server]) -> None:
    """Who waited for its end, and what it cost, once learned of it a minute later."""
    server = own_server()
    box = server.create(memoryMiB=128)
    os.kill(server.keeper(box)[0], signal.SIGKILL)

    def reason() -> str | None:
        with sqlite3.connect(server.home / "sealmark.db", timeout=60) as db:
            row = db.execute("SELECT stop_reason FROM sandbox WHERE id = ?", (box,)).fetchone()
        db.close()
        return row[0]

    # all records are looked at once a minute in any case; this is sooner
    assert wait_until(reason, "its record to say so", 50) == "host_lost"


def test_stopped_while_it_starts(own_server: Callable[..., Server]) -> None:
    server = own_server()
    for _ in range(5):
        box = server.ask("POST", "/v1/sandboxes", {"memoryMiB": 128}).json
        stopped = server.ask("POST", f"/v1/sandboxes/{box['id']}:stop", {})
        assert (stopped.status, stopped.json["state"]) == (200, "stopped"), stopped.body
        assert stopped.json["stopReason"] == "requested"
    assert server.ask("GET", "/v1/limits").json["account"][0]["used"] == 0


def test_a_create_whose_server_is_killed_is_made_once(own_server: Callable[..., Server]) -> None:
    """The answer is lost with the server; the same call to the next one has the same sandbox."""
    server = own_server()
    headers = {"Idempotency-Key": uuid.uuid4().hex, "Prefer": "wait=60"}
    body = {"memoryMiB": 128, "labels": {"only": "one"}}
    lost: list[str] = []

    def ask() -> None:
        try:
            lost.append(server.ask("POST", "/v1/sandboxes", body, headers=headers).json["id"])
        except OSError:
            pass

    for _ in range(6):
        thread = threading.Thread(target=ask)
        thread.start()
        # as soon as it is on record, whatever else has happened by then
        wait_until(lambda: server.ask("GET", "/v1/sandboxes").json["data"], "the create's record")
        server.kill()
        thread.join(60)
        server.start()
        again = server.ask("POST", "/v1/sandboxes", body, headers=headers)
        assert again.status == 201, again.body
        assert again.json["replayed"] is True
        listed = server.ask("GET", "/v1/sandboxes?includeStopped=true").json["data"]
        assert [s["id"] for s in listed] == [again.json["id"]]
        path = f"/v1/sandboxes/{again.json['id']}?waitFor=running&timeoutSeconds=60"
        ready = server.ask("GET", path).json
        assert ready["state"] == "running", ready
        assert server.run(ready["id"], "echo 1")["stdout"] == "1\n"
        assert server.ask("DELETE", f"/v1/sandboxes/{ready['id']}").status == 200
        headers["Idempotency-Key"] = uuid.uuid4().hex


def hold_starts(folder: Path) -> Path:
    """Helpers whose monitors write a line to `starts`, and begin when `gate` is not locked."""
    given = os.environ.get("SEALMARK_LIBEXEC")
    monitor = Path(given or BUILD / "src/monitor") / "sealmark-monitor"
    folder.mkdir()
    shutil.copy(Path(given or BUILD / "agent") / "agent.cpio", folder)
    script = folder / "sealmark-monitor"
    script.write_text(
        "#!/bin/sh\n"
        f"echo start >>'{folder}/starts'\n"
        f"flock -s '{folder}/gate' true\n"
        f"exec '{monitor}'\n"
    )
    script.chmod(0o755)
    return folder


def test_what_is_begun_while_an_old_server_is_cleared_up_after(
    own_server: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = own_server()
    server.kill()
    # a machine that the dead server was starting, whose keeper does not end for a while: what
    # else there was is looked at after it
    machine = str(uuid.uuid4())
    spare = server.home / "sandboxes" / machine
    spare.mkdir(parents=True)
    with sqlite3.connect(server.home / "sealmark.db", timeout=60) as db:
        db.execute("INSERT INTO spare VALUES (?, '', 128, 0, 0)", (machine,))
    db.close()
    helpers = hold_starts(tmp_path / "helpers")
    monkeypatch.setenv("SEALMARK_LIBEXEC", str(helpers))
    keeper = os.open(spare, os.O_RDONLY)
    fcntl.flock(keeper, fcntl.LOCK_EX)
    with (helpers / "gate").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        server.start()
        box = server.ask("POST", "/v1/sandboxes", {"memoryMiB": 128}).json["id"]
        os.close(keeper)
        wait_until(
            lambda: not spare.exists() and (helpers / "starts").exists(),
            "the spare to be cleared away and the new machine to be begun",
        )
    running = server.ask("GET", f"/v1/sandboxes/{box}?waitFor=running&timeoutSeconds=60").json
    assert running["state"] == "running"
    assert server.run(box, "echo 1")["stdout"] == "1\n"
    # it is the new server's, and not one more that the old one had under way
    assert (helpers / "starts").read_text() == "start\n"
    server.kill()
    server.start()
    assert server.run(box, "echo 2")["stdout"] == "2\n"


def test_sigterm_leaves_sandboxes_alone(own_server: Callable[..., Server]) -> None:
    server = own_server()
    box = server.create()
    ends: list[Answer | OSError] = []

    def follow() -> None:
        try:
            body = {"command": "echo begun; sleep 1000", "stream": True}
            ends.append(server.ask("POST", f"/v1/sandboxes/{box}:exec", body))
        except (OSError, Exception) as error:
            ends.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    wait_until(
        lambda: "sleep" in server.run(box, "ps -eo comm", user="root")["stdout"], "the command"
    )
    assert server.stop() == 0
    thread.join(60)
    assert not thread.is_alive()
    server.start()
    assert server.ask("GET", f"/v1/sandboxes/{box}").json["state"] == "running"


def test_kills_at_random_moments(own_server: Callable[..., Server]) -> None:
    """Under load: no sandbox twice, none lost, every record true."""
    server = own_server()
    stop = threading.Event()
    made: set[str] = set()

    def work(seed: int) -> None:
        while not stop.is_set():
            headers = {"Idempotency-Key": uuid.uuid4().hex, "Prefer": "wait=10"}
            for _ in range(50):
                try:
                    body = {"memoryMiB": 128, "timeoutSeconds": 600}
                    answer = server.ask("POST", "/v1/sandboxes", body, headers=headers)
                    if answer.status == 201:
                        made.add(answer.json["id"])
                        server.ask("DELETE", f"/v1/sandboxes/{answer.json['id']}")
                        break
                except Exception:  # noqa: BLE001 - the server is gone for a moment
                    time.sleep(0.02)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for i in range(8):
        time.sleep(0.15 + 0.07 * i)  # the moment is what is tried out
        server.kill()
        server.start()
    stop.set()
    for thread in threads:
        thread.join(120)
    records = server.ask("GET", "/v1/sandboxes?limit=100").json["data"]
    for record in records:
        seen = server.ask("GET", f"/v1/sandboxes/{record['id']}").json
        directory = server.home / "sandboxes" / record["id"]
        if seen["state"] == "running":
            assert directory.is_dir()
            assert server.run(record["id"], "echo 1")["stdout"] == "1\n"
        assert server.ask("DELETE", f"/v1/sandboxes/{record['id']}").status in (200, 409)
    known = {r["id"] for r in records}
    wait_until(
        lambda: set(os.listdir(server.home / "sandboxes")) <= known,
        "the keepers of deleted ones to clear up",
    )
