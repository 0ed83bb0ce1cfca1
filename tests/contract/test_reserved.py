# SPDX-License-Identifier: Apache-2.0
"""CPUs that are set aside: who has one has it alone."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from serving import Answer, Server, wait_spares
from support import below

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="a host of one CPU has none to set aside"
)
OWN = {"memoryMiB": 128, "cpu": "reserved"}


def cpus(server: Server, machine: str) -> tuple[set[int], set[int]]:
    """Where its virtual machine may run, and where anything of the sandbox may."""
    (keeper,) = server.keeper(machine)
    guest: set[int] = set()
    everything = os.sched_getaffinity(keeper)
    for pid in below(keeper):
        with suppress(OSError):  # processes of the guest come and go
            may = os.sched_getaffinity(pid)
            everything |= may
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"linux\0mem="):
                guest |= may
    return guest, everything


def refusal(answer: Answer) -> tuple[str | None, str]:
    return answer.code, answer.json["error"]["details"]["limit"]


@pytest.fixture
def server(own_server: Callable[..., Server]) -> Server:
    server = own_server(start=False)
    (server.home / "sealmark.yaml").write_text("quotas:\n  reservedVcpu: 1\n")
    server.start()
    return server


def test_one_that_reserves_is_alone(server: Server) -> None:
    server.spares = []
    server.kill()
    server.start()  # with machines made in advance: it takes none of those
    last = max(os.sched_getaffinity(0))
    shared = [server.create(memoryMiB=128) for _ in range(3)]
    wait_spares(server, 2)
    box = server.create(**OWN)
    assert server.ask("GET", f"/v1/sandboxes/{box}").json["cpu"] == "reserved"
    assert cpus(server, box)[0] == {last}
    with sqlite3.connect(server.home / "sealmark.db", timeout=60) as db:
        rows = dict(db.execute("SELECT id, machine FROM sandbox").fetchall())
    db.close()
    assert rows.keys() == {box, *shared} and rows[box] == box
    for machine in {rows[id] for id in shared}:
        guest, everything = cpus(server, machine)
        assert guest and last not in everything
    assert server.process and last not in os.sched_getaffinity(server.process.pid)
    assert refusal(server.ask("POST", "/v1/sandboxes", OWN)) == (
        "no_capacity",
        "sandbox.reserved_vcpu",
    )
    limits = {row["limit"]: row for row in server.ask("GET", "/v1/limits").json["account"]}
    row = limits["sandbox.reserved_vcpu"]
    assert (row["max"], row["used"]) == (1, 1)


def test_it_is_kept_as_long_as_it_lives(server: Server) -> None:
    box = server.create(**OWN)
    assert server.ask("POST", f"/v1/sandboxes/{box}:pause", {}).status == 200
    assert server.ask("POST", "/v1/sandboxes", OWN).code == "no_capacity"
    assert server.ask("POST", f"/v1/sandboxes/{box}:wake", {}).status == 200
    server.kill()
    server.start()
    assert server.ask("POST", "/v1/sandboxes", OWN).code == "no_capacity"
    assert server.run(box, "nproc")["stdout"] == "1\n"
    assert server.ask("DELETE", f"/v1/sandboxes/{box}").status == 200
    other = server.create(**OWN)
    assert server.ask("POST", f"/v1/sandboxes/{other}:stop", {}).status == 200
    server.create(**OWN)
    assert refusal(server.ask("POST", f"/v1/sandboxes/{other}:restart", {})) == (
        "no_capacity",
        "sandbox.reserved_vcpu",
    )


def test_none_are_set_aside_unless_the_operator_says_so(own_server: Callable[..., Server]) -> None:
    server = own_server()
    assert server.ask("POST", "/v1/sandboxes", OWN).code == "unavailable"
    assert server.stop() == 0
    count = len(os.sched_getaffinity(0))
    config = server.home / "sealmark.yaml"
    config.write_text(f"quotas:\n  reservedVcpu: {count}\n")
    done = server.command("serve", "--listen", "127.0.0.1:0", "--check")
    assert done.returncode != 0
    assert f"quotas.reservedVcpu: {count}" in done.stderr and "must be left" in done.stderr
