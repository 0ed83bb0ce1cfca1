# SPDX-License-Identifier: Apache-2.0
"""The console in a browser, against a server with real machines."""

from collections.abc import Callable
from pathlib import Path

import pytest

from people import PASSWORD, Browser, Program, link_of
from serving import Server

Play = Callable[..., None]


def test_the_owner(fresh: Server, play: Play) -> None:
    play(fresh, "owner", CONSOLE_LINK=f"{fresh.url}/setup?token={link_of(fresh)}")


def test_a_sandbox_and_what_it_cost(server: Server, play: Play) -> None:
    play(server, "sandbox")
    play(server, "usage")


def test_many_sandboxes(fresh: Server, play: Play) -> None:
    token = {"token": link_of(fresh), "password": PASSWORD, "name": "Ann"}
    assert Browser(fresh).fetch("POST", "/api/setup", token).status == 200
    for place in range(55):
        body = {"name": f"box-{place}", "memoryMiB": 128, "labels": {"place": str(place)}}
        answer = fresh.ask("POST", "/v1/sandboxes", body)
        assert answer.status in (201, 202), answer.body
    play(fresh, "many")


def test_a_program_is_given_a_key(server: Server, play: Play, tmp_path: Path) -> None:
    program = Program(server, tmp_path)
    assert program.start(purpose="grade <b>homework</b>", access="full").status == 200
    play(server, "approve", CONSOLE_CODE=program.codes["userCode"])
    answer = program.poll()
    assert answer["status"] == "connected"
    key = program.decrypt(answer["encryptedKey"])
    assert server.ask("GET", "/v1/sandboxes", key=key).status == 200
    assert server.ask("POST", "/v1/sandboxes", {}, key=key).status == 403


def test_a_program_is_denied_one(server: Server, play: Play, tmp_path: Path) -> None:
    program = Program(server, tmp_path)
    assert program.start().status == 200
    play(server, "deny")
    assert program.poll()["status"] == "denied"


@pytest.mark.parametrize("scene", ["keys", "images", "narrow", "keyboard"])
def test_scene(server: Server, play: Play, scene: str) -> None:
    play(server, scene)
