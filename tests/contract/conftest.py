# SPDX-License-Identifier: Apache-2.0
"""A server with real machines for the whole session, and the public client pointed at it."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from people import PASSWORD, Browser, Program, link_of
from serving import Server, make_home
from support import empty_cgroups, real_home


@pytest.fixture(scope="session", autouse=True)
def no_console(build: Path) -> Iterator[None]:
    """The helpers without the console's files, which may have been built: tests of pages are about
    what the server has itself."""
    if os.environ.get("SEALMARK_LIBEXEC"):
        yield
        return
    helpers = Path(tempfile.mkdtemp(prefix="sealmark-"))
    helpers.chmod(0o755)  # the monitor gives up its rights before it uses them
    for name in ("src/monitor/sealmark-monitor", "agent/agent.cpio"):
        shutil.copy(build / name, helpers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEALMARK_LIBEXEC", str(helpers))
        yield
    shutil.rmtree(helpers)


@pytest.fixture(scope="session")
def has_machines(build: Path) -> None:
    for name in ("kernels", "images"):
        if not (real_home() / name).is_dir():
            pytest.skip(f"{real_home() / name} is not there: run guest/setup.sh")


@pytest.fixture(scope="session")
def server(has_machines: None) -> Iterator[Server]:
    server = Server(make_home(), ["--rate", "2000"])
    server.start()
    yield server
    server.close()


@pytest.fixture
def own_server(has_machines: None) -> Iterator[Callable[..., Server]]:
    """Makes servers with homes of their own; nothing of their sandboxes may stay."""
    before = empty_cgroups()
    made: list[Server] = []

    def make(*options: str, start: bool = True) -> Server:
        made.append(Server(make_home(), ["--rate", "2000", *options]))
        if start:
            made[-1].start()
        return made[-1]

    yield make
    for server in made:
        server.close()
    deadline = time.monotonic() + 60  # others' sandboxes on this host come and go as well
    while (left := empty_cgroups() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


@pytest.fixture
def sandbox(server: Server) -> Iterator[str]:
    made = server.create()
    yield made
    server.ask("DELETE", f"/v1/sandboxes/{made}")


@pytest.fixture
def client_env(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program sets to come from the service to this server: nothing else changes."""
    monkeypatch.setenv("RUNTIME_API_URL", server.url)
    monkeypatch.setenv("RUNTIME_AUTH_URL", server.url)
    monkeypatch.setenv("RUNTIME_API_KEY", server.key)


@pytest.fixture
def runtime(client_env: None) -> Iterator[Any]:
    from withruntime import Runtime

    with Runtime() as runtime:
        yield runtime


@pytest.fixture
def box(runtime: Any) -> Iterator[Any]:
    """A sandbox of the public client."""
    with runtime.sandboxes.create(memory_mib=512, timeout_seconds=300) as box:
        yield box


@pytest.fixture
def fresh(has_machines: None) -> Iterator[Callable[..., Server]]:
    """Servers without an owner; no machine is started on them."""
    made: list[Server] = []

    def make(*options: str) -> Server:
        made.append(Server(make_home(), ["--engine", "fake", "--rate", "2000", *options]))
        made[-1].start()
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def owned(fresh: Callable[..., Server]) -> Server:
    server = fresh()
    answer = Browser(server).fetch(
        "POST", "/api/setup", {"token": link_of(server), "password": PASSWORD, "name": "Ann"}
    )
    assert answer.status == 200, answer.body
    return server


@pytest.fixture
def person(owned: Server) -> Browser:
    browser = Browser(owned)
    assert browser.sign_in().status == 200
    return browser


@pytest.fixture
def program(owned: Server, tmp_path: Path) -> Program:
    return Program(owned, tmp_path)
