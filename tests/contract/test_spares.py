# SPDX-License-Identifier: Apache-2.0
"""Machines made in advance: handed over, given up for others, and none left behind."""

import os
import signal
from collections.abc import Callable

import pytest

from serving import Server, wait_spares
from support import wait_until


@pytest.fixture
def spared(own_server: Callable[..., Server]) -> Callable[..., Server]:
    def make(*options: str) -> Server:
        server = own_server(*options, start=False)
        server.spares = []
        server.start()
        return server

    return make


def machines(server: Server) -> set[str]:
    return {d.name for d in (server.home / "sandboxes").iterdir()}


def test_a_create_is_a_hand_over(spared: Callable[..., Server]) -> None:
    server = spared()
    first = server.create(memoryMiB=128)
    ready = set(wait_spares(server, 2))
    box = server.create(memoryMiB=128, env={"A": "1"}, timeoutSeconds=600)
    assert machines(server) >= ready | {first}
    assert box not in machines(server)  # it has one of those that were there
    assert server.run(box, "echo $A; id -un")["stdout"] == "1\nruntime\n"
    record = server.ask("GET", f"/v1/sandboxes/{box}").json
    assert record["timeoutSeconds"] == 600
    # its life began when it was handed over
    assert int(record["chargedMicros"]) <= int(record["heldMicros"])
    other = server.create(memoryMiB=192)  # of another shape: made from nothing
    assert other in machines(server)
    for one in (first, box, other):
        assert server.ask("DELETE", f"/v1/sandboxes/{one}").status == 200
    assert server.stop() == 0
    assert not machines(server)  # what nobody asked for goes with the server


def test_they_never_take_room(spared: Callable[..., Server]) -> None:
    server = spared("--memory", "384")
    boxes = [server.create(memoryMiB=128)]
    wait_spares(server, 0 if 384 // 4 < 128 else 1)  # a quarter of the memory is not one
    server.kill()
    config = server.home / "sealmark.yaml"
    config.write_text("spares:\n  memoryMiB: 384\n")
    server.start()
    boxes.append(server.create(memoryMiB=128))
    wait_spares(server, 1)
    boxes.append(server.create(memoryMiB=128))  # by the one there was
    wait_spares(server, 0)
    refused = server.ask("POST", "/v1/sandboxes", {"memoryMiB": 128})
    assert refused.code == "no_capacity"
    assert server.ask("DELETE", f"/v1/sandboxes/{boxes.pop()}").status == 200
    boxes.append(server.create(memoryMiB=128))
    wait_spares(server, 0)


def test_one_that_dies_is_not_missed(spared: Callable[..., Server]) -> None:
    server = spared()
    server.create(memoryMiB=128)
    for machine in wait_spares(server, 2):
        os.kill(server.keeper(machine)[0], signal.SIGKILL)
    box = server.create(memoryMiB=128)
    assert server.run(box, "echo 1")["stdout"] == "1\n"


def test_a_killed_server_leaves_none(spared: Callable[..., Server]) -> None:
    server = spared()
    box = server.create(memoryMiB=128)
    before = wait_spares(server, 2)
    server.kill()
    server.start()
    # those that are there are taken over, and used
    other = server.create(memoryMiB=128)
    assert other not in machines(server)
    assert len(set(before) & set(wait_spares(server, 2))) == 1
    server.kill()
    server.spares = ["--no-spares"]
    server.start()
    wait_spares(server, 0)
    wait_until(lambda: len(machines(server)) == 2, "the two that are nobody's to go")
    assert server.run(box, "echo 1")["stdout"] == "1\n"
