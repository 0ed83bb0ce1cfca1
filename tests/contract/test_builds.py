# SPDX-License-Identifier: Apache-2.0
"""Builds among sandboxes: what they take of the quotas, and one of a name at a time."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from building import BUILDS, HANGS, build, get, recipe, script
from serving import Answer, Server, spares, wait_spares

CONFIG = """\
quotas:
  memoryMiB: {memory}
images:
  buildMemoryMiB: 1024
"""


@pytest.fixture
def small(own_server: Callable[..., Server], tmp_path: Path) -> Callable[..., Server]:
    """A server with so much memory for all; its builds take 1024 MiB, and hang."""

    def make(memory: int, more: str = "") -> Server:
        config = tmp_path / "sealmark.yaml"
        config.write_text(CONFIG.format(memory=memory) + more)
        options = ("--engine", "fake", "--require-isolation", "none", "--config", str(config))
        server = own_server(*options, start=False)
        server.options += ["--script", str(server.home / "script")]
        script(server, HANGS)
        return server

    return make


def until(what: str, true: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (found := true()):
        assert time.monotonic() < deadline, f"waited for this: {what}"
        time.sleep(0.02)
    return found


def starts(server: Server, image: str) -> None:
    until("the build runs", lambda: get(server, image)["state"] == "building")


def log(server: Server, image: str) -> list[str]:
    return [line["text"] for line in server.ask("GET", f"/v1/images/{image}/logs").json["lines"]]


def create(server: Server, memory: int, **fields: Any) -> Answer:
    body = {"memoryMiB": memory, "timeoutSeconds": 300, **fields}
    return server.ask("POST", "/v1/sandboxes", body, headers={"Prefer": "wait=60"})


def used(server: Server) -> int:
    rows = server.ask("GET", "/v1/limits").json["account"]
    return next(row["used"] for row in rows if row["limit"] == "sandbox.memory_mib")


def refused(answer: Answer) -> bool:
    return (answer.status, answer.code) == (409, "no_capacity")


def test_a_build_waits_for_room_and_takes_it(small: Callable[..., Server]) -> None:
    server = small(2048)
    server.start()
    box = create(server, 1536)
    assert box.status == 201, box.body
    image = build(server, wait=0, name="course", recipe=recipe("1")).json["id"]
    until("the log says what is missing", lambda: log(server, image))
    assert log(server, image) == [
        "waiting for room: 1024 more is asked for, and 512 of 2048 MiB of memory are left"
    ]
    assert get(server, image)["state"] == "queued"
    listed = server.ask("GET", "/v1/images?state=queued").json["data"]
    assert [i["id"] for i in listed] == [image]
    # the rest is kept for it, so that small ones do not take it away for ever
    assert refused(create(server, 512))
    server.ask("DELETE", f"/v1/sandboxes/{box.json['id']}")
    starts(server, image)
    # what it has is taken, and the rest is not
    assert refused(create(server, 1025))
    other = create(server, 1024)
    assert other.status == 201, other.body
    assert used(server) == 2048
    server.ask("POST", f"/v1/images/{image}:delete", {})
    assert used(server) == 1024
    again = create(server, 1024)
    assert again.status == 201, again.body


def test_a_build_that_ended_gives_its_room_back(small: Callable[..., Server]) -> None:
    server = small(1024)
    script(server, BUILDS)
    server.start()
    for number in range(3):
        # who has read that one is ready may ask for the next at once
        answer = build(server, name="course", recipe=recipe(str(number)))
        assert answer.status == 201, answer.body
        assert answer.json["state"] == "ready", answer.body
    until("all is free", lambda: used(server) == 0)
    assert create(server, 1024).status == 201


def test_a_waiting_build_can_be_cancelled(small: Callable[..., Server]) -> None:
    server = small(2048)
    server.start()
    assert create(server, 1536).status == 201
    image = build(server, wait=0, name="course", recipe=recipe("1")).json["id"]
    until("it claims its room", lambda: used(server) == 1536 + 1024)
    deleted = server.ask("POST", f"/v1/images/{image}:delete", {})
    assert (deleted.status, deleted.json["state"]) == (200, "deleted")
    assert used(server) == 1536
    assert create(server, 512).status == 201


def test_the_room_of_what_was_killed_comes_back(small: Callable[..., Server]) -> None:
    server = small(2048)
    server.start()
    image = build(server, wait=0, name="course", recipe=recipe("1")).json["id"]
    starts(server, image)
    machine = until("its machine", lambda: list(server.home.glob("sandboxes/*/control.sock")))
    os.kill(server.keeper(machine[0].parent.name)[0], signal.SIGKILL)
    until("the build has failed", lambda: get(server, image)["state"] == "failed")
    until("its room is free", lambda: used(server) == 0)
    # and when the whole server is killed
    image = build(server, wait=0, name="course", recipe=recipe("1")).json["id"]
    starts(server, image)
    assert used(server) == 1024
    server.kill()
    server.start()
    assert get(server, image)["state"] == "failed"
    assert used(server) == 0
    box = create(server, 2048)
    assert box.status == 201, box.body


def test_a_key_that_is_full_keeps_nobody_waiting(small: Callable[..., Server]) -> None:
    server = small(8192, "")
    config = Path(server.options[server.options.index("--config") + 1])
    config.write_text(
        "quotas:\n  memoryMiB: 8192\n  perKey:\n    memoryMiB: 1536\n"
        "images:\n  buildMemoryMiB: 4096\n"
    )
    server.start()
    assert create(server, 1024).status == 201
    # a machine has no more than its key may have
    large = build(server, name="x", recipe=recipe("1"), build={"memoryMiB": 2048})
    assert (large.status, large.code) == (400, "invalid_request")
    first = build(server, wait=0, name="course", recipe=recipe("1")).json["id"]
    until("it says what it waits for", lambda: log(server, first))
    assert log(server, first) == [
        "waiting for room: 1536 more is asked for, and 512 of 1536 MiB of memory of this key "
        "are left"
    ]
    assert used(server) == 1024
    other = server.make_key()
    body = {"name": "other", "recipe": recipe("1")}
    second = server.ask("POST", "/v1/images", body, key=other).json["id"]
    path = f"/v1/images/{second}"
    until(
        "another key's build goes before it",
        lambda: server.ask("GET", path, key=other).json["state"] == "building",
    )
    assert get(server, first)["state"] == "queued"


def test_spares_make_room_for_a_build(small: Callable[..., Server]) -> None:
    server = small(4096)
    server.spares = []
    server.start()
    assert create(server, 1024, network={"internet": False}).status == 201
    wait_spares(server, 1)
    image = build(server, wait=0, name="a", recipe=recipe("1")).json["id"]
    starts(server, image)
    assert create(server, 1024).status == 201
    assert create(server, 1024).status == 201
    until("no machine waits any more", lambda: not any(spares(server, s) for s in (0, 1, 2)))
    assert used(server) == 4096


def test_one_build_of_a_name_at_a_time(small: Callable[..., Server]) -> None:
    """Two that were asked for in the same instant were both built, also for two keys."""
    server = small(4096)
    server.start()
    keys = [server.key, server.make_key()] * 4
    answers: list[Answer] = []
    ready = threading.Barrier(len(keys))

    def ask(number: int) -> None:
        body = {"name": "course", "recipe": recipe(str(number))}
        ready.wait(60)
        answers.append(server.ask("POST", "/v1/images", body, key=keys[number]))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(keys))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert sorted(answer.status for answer in answers) == [201] + [409] * 7
    assert {a.code for a in answers if a.status == 409} == {"build_in_progress"}
    again = next(a for a in answers if a.status == 409)
    assert int(again.headers["retry-after"]) >= 1
    # another name does not wait for it
    assert build(server, wait=0, name="other", recipe=recipe("1")).status == 201


def test_a_build_takes_no_place_of_a_sandbox(small: Callable[..., Server]) -> None:
    """Where the operator has not said how many CPUs there are, a build's is not one of theirs."""
    server = small(4096)
    config = Path(server.options[server.options.index("--config") + 1])
    config.write_text("quotas:\n  memoryMiB: 4096\n  sandboxes: 2\n")
    server.start()
    image = build(server, wait=0, name="a", recipe=recipe("1"), build={"memoryMiB": 1024})
    starts(server, image.json["id"])
    assert create(server, 512).status == 201
    assert create(server, 512).status == 201
    third = create(server, 512)
    assert (third.status, third.code) == (409, "quota_exceeded")
