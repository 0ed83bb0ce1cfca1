# SPDX-License-Identifier: Apache-2.0
"""sealmark image against a server whose builds end at once (engine fake)."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving import Server, make_home
from support import PROGRAM

# what a build machine gives: bytes with the mark of the file system at its place
IMAGE = "report " + '"' + "a" * 1024 + "\\xe2\\xe1\\xf5\\xe0" + "b" * 64 + '"'
BUILDS = f'exec "*/.build/driver" stdout "hello\\nworld\\n" {IMAGE}\n'
FAILS = 'exec "*/.build/driver" stderr "no such package\\nthis step failed\\n" exit 10\n'
HANGS = 'exec "*/.build/driver" stdout "begun\\n" hang\n'
Done = subprocess.CompletedProcess[str]


class Builds:
    """The program against a server with images of its own."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.env = {
            **server.environment(),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "SEALMARK_API_URL": server.url,
            "SEALMARK_API_KEY": server.key,
            # not those of the server's host: what is seen here came over HTTP
            "SEALMARK_HOME": str(folder / "nothing"),
        }

    def script(self, text: str) -> None:
        (self.server.home / "script").write_text(text)

    def recipe(self, text: str) -> None:
        (self.folder / "recipe.yaml").write_text(text)

    def __call__(self, *args: str) -> Done:
        return subprocess.run(
            [PROGRAM, "image", *args],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
        )

    def good(self, *args: str) -> str:
        done = self(*args)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def builds(has_machines: None, tmp_path: Path) -> Iterator[Builds]:
    server = Server(make_home(), ["--engine", "fake", "--require-isolation", "none"])
    server.options += ["--script", str(server.home / "script")]
    (server.home / "script").write_text(BUILDS)
    server.start()
    yield Builds(server, tmp_path)
    server.close()


def test_versions_tags_and_logs(builds: Builds) -> None:
    builds.recipe("commands: ['true']\n")
    done = builds("build", "course", "-f", "recipe.yaml", "-t", "exam")
    assert (done.returncode, done.stdout) == (0, "course@1\n"), done.stderr
    assert "hello\n" in done.stderr and "world\n" in done.stderr
    # the same is there at once; another is the next version
    assert builds.good("build", "course", "-f", "recipe.yaml", "-q") == "course@1\n"
    builds.recipe("commands: ['false']\n")
    assert builds.good("build", "course", "-f", "recipe.yaml", "-q") == "course@2\n"
    assert builds.good("build", "course", "-f", "recipe.yaml", "-q", "--again") == "course@3\n"
    rows = {row["version"]: row for row in json.loads(builds.good("versions", "course", "--json"))}
    assert set(rows) == {"1", "2", "3"}
    assert rows["3"]["tags"] == ["latest"]
    builds.good("tag", "course@2", "exam")
    shown = json.loads(builds.good("show", "course:exam", "--json"))
    assert shown["version"] == "2"
    builds.good("untag", "course@2", "exam")
    assert builds("show", "course:exam").returncode == 2
    assert "world\n" in builds.good("logs", "course@1")
    assert builds.good("rm", "course@1", "course@2") == "course@1 is gone\ncourse@2 is gone\n"
    assert "course" in builds.good("ls")
    rows = json.loads(builds.good("versions", "course", "--json"))
    assert [row["version"] for row in rows] == ["3"]


def test_the_log_of_a_build_whose_server_was_killed(builds: Builds) -> None:
    builds.script(HANGS)
    body = {"name": "course", "recipe": {"commands": ["true"]}}
    image = builds.server.ask("POST", "/v1/images", body).json["id"]
    with builds.server.open("GET", f"/v1/images/{image}/logs?follow=true") as lines:
        assert json.loads(lines.readline())["text"] == "begun"
    builds.server.kill()
    builds.server.start()
    builds.env["SEALMARK_API_URL"] = builds.server.url
    done = builds("logs", "course")
    assert (done.returncode, done.stdout) == (0, "begun\n")
    assert "stopped while it was built" in done.stderr


def test_a_failed_build(builds: Builds) -> None:
    builds.recipe("apt: [nonsuch]\n")
    builds.script(FAILS)
    done = builds("build", "course", "-f", "recipe.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no such package" in done.stderr
    assert "no such package" in builds.good("logs", "course")
    assert builds("logs", "course").stderr == ""  # said in the log, so not again
    done = builds("build", "course", "-f", "gone.yaml")
    assert done.returncode == 2
    builds.recipe("apt: ['-o evil']\n")
    done = builds("build", "course", "-f", "recipe.yaml")
    assert done.returncode == 2 and "recipe.apt" in done.stderr


def test_a_folder_goes_along(builds: Builds) -> None:
    (builds.folder / "context").mkdir()
    (builds.folder / "context" / "big").write_bytes(os.urandom((2 << 20) + 7))
    (builds.folder / "Dockerfile").write_text("FROM default\nCOPY big /x\n")
    args = ("build", "docker", "-f", "Dockerfile", "--context", "context", "-q")
    assert builds.good(*args) == "docker@1\n"


def test_ctrl_c_ends_the_build(builds: Builds) -> None:
    builds.recipe("commands: ['true']\n")
    builds.script(HANGS)
    command = subprocess.Popen(
        [PROGRAM, "image", "build", "course", "-f", "recipe.yaml"],
        env=builds.env,
        cwd=builds.folder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stderr
    while "begun" not in command.stderr.readline():
        assert command.poll() is None
    command.send_signal(signal.SIGINT)
    assert command.wait(60) == 130
    assert json.loads(builds.good("versions", "course", "--json")) == []
