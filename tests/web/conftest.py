# SPDX-License-Identifier: Apache-2.0
"""A server that shows the console, with an owner, for browsers that play its scenes."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from people import PASSWORD, Browser, link_of
from serving import Server, make_home
from support import ROOT, real_home

SCENES = Path(__file__).with_name("scenes.mjs")
Play = Callable[..., None]


@pytest.fixture(scope="session")
def console(build: Path) -> None:
    subprocess.run([ROOT / "scripts" / "web"], check=True, timeout=300)


@pytest.fixture(scope="session")
def has_machines(console: None) -> None:
    for name in ("kernels", "images"):
        if not (real_home() / name).is_dir():
            pytest.skip(f"{real_home() / name} is not there: run guest/setup.sh")


@pytest.fixture(scope="session")
def server(has_machines: None) -> Iterator[Server]:
    server = Server(make_home(), ["--rate", "2000"])
    server.start()
    answer = Browser(server).fetch(
        "POST", "/api/setup", {"token": link_of(server), "password": PASSWORD, "name": "Ann"}
    )
    assert answer.status == 200, answer.body
    yield server
    server.close()


@pytest.fixture
def fresh(has_machines: None) -> Iterator[Server]:
    """Without an owner; no machine is started on it."""
    options = ["--engine", "fake", "--require-isolation", "none", "--sandboxes", "60"]
    server = Server(make_home(), options)
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def play() -> Play:
    """Plays a scene; what the browser sees is right if it ends well."""

    def play(server: Server, scene: str, **more: str) -> None:
        env = {**os.environ, "CONSOLE_URL": server.url, "CONSOLE_PASSWORD": PASSWORD, **more}
        done = subprocess.run(
            ["node", SCENES, scene], env=env, capture_output=True, text=True, timeout=170
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return play
