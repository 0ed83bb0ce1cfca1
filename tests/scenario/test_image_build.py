# SPDX-License-Identifier: Apache-2.0
"""sealmark image build and the commands of versions, on the scripted engine."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support import Sealmark, make_image

Build = Callable[..., subprocess.CompletedProcess[bytes]]
FAKE = ("--require-isolation", "none", "--engine", "fake", "--script", "script")
IMAGE = "report " + '"' + "a" * 1024 + "\\xe2\\xe1\\xf5\\xe0" + "b" * 64 + '"'
BUILDS = f'exec "*/.build/driver" stdout "hello\\n" stderr "half" {IMAGE}\n'


@pytest.fixture
def build_image(sealmark: Sealmark, leftovers: None) -> Build:
    """Builds NAME from the text of a recipe or Dockerfile; further arguments are options."""
    if not (sealmark.home / "images" / "default").exists():
        make_image(sealmark.home)

    def run(
        name: str, text: str, *options: str, script: str = BUILDS, file: str = "recipe.yaml"
    ) -> subprocess.CompletedProcess[bytes]:
        (sealmark.cwd / "script").write_text(script)
        (sealmark.cwd / file).write_text(text)
        return sealmark.run("image", "build", name, "-f", file, *FAKE, *options)

    return run


def states(sealmark: Sealmark) -> list[str]:
    records = sealmark.home.glob("builds/*/record.json")
    return sorted(json.loads(path.read_text())["state"] for path in records)


def test_versions_tags_and_logs(sealmark: Sealmark, build_image: Build) -> None:
    done = build_image("course", "commands: [echo 1]\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"course@1\n", b"hello\nhalf\n")
    done = build_image("course", "commands: [echo 2]\n", "-q", "-t", "exam")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"course@2\n", b"")
    # what was built so is there
    done = build_image("course", "commands: [echo 1]\n", script="boot die\n")
    assert (done.returncode, done.stdout) == (0, b"course@1\n")
    listed = sealmark.run("image", "versions", "course", "--json")
    versions = json.loads(listed.stdout)
    assert [(v["version"], v["tags"]) for v in versions] == [("2", ["exam"]), ("1", ["latest"])]
    assert sealmark.run("image", "tag", "course:exam", "old").returncode == 0
    assert sealmark.run("image", "untag", "course:old", "exam").returncode == 0
    assert sealmark.run("image", "versions", "course").stdout.count(b"old") == 1
    assert sealmark.run("image", "logs", "course@2").stdout == b"hello\nhalf\n"
    events = sealmark.run("image", "logs", "course", "--json").stdout.splitlines()
    assert [json.loads(line)["text"] for line in events] == ["hello", "half"]
    assert sealmark.run("image", "rm", "course@2").stdout == b"course@2 is gone\n"
    done = build_image("course", "commands: [echo 3]\n", "--json", "-q")
    assert json.loads(done.stdout)["version"] == "3"


def test_a_step_that_fails(sealmark: Sealmark, build_image: Build) -> None:
    script = 'exec "*/.build/driver" stderr "no such package\\n" exit 10\n'
    done = build_image("course", "apt: [nonsuch]\n", script=script)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        b"sealmark: image course: no such package (sealmark image logs course)"
    )
    assert states(sealmark) == ["failed"]
    assert not (sealmark.home / "images" / "course").exists()
    assert b"no such package" in sealmark.run("image", "logs", "course").stdout


@pytest.mark.parametrize("step", ['stdout "x"', f'report "{"a" * 2000}"', "hang"])
def test_what_is_no_image(sealmark: Sealmark, build_image: Build, step: str) -> None:
    """A build machine may say anything: only a whole image becomes a version."""
    done = build_image(
        "course", "{}\n", "--timeout", "2s", script=f'exec "*/.build/driver" {step}\n'
    )
    assert done.returncode == 1, done.stderr
    assert states(sealmark) == ["failed"]
    assert not (sealmark.home / "images" / "course").exists()


@pytest.mark.parametrize("step", ["boot die", "boot garbage", "die at EXEC", "garbage at EXEC"])
def test_machines_that_break(sealmark: Sealmark, build_image: Build, step: str) -> None:
    done = build_image("course", "{}\n", script=step + "\n")
    assert done.returncode == 3, done.stderr
    assert states(sealmark) == ["failed"]
    assert [p.name for p in (sealmark.home / "images").iterdir() if "build" in p.name] == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_builder_is_stopped(sealmark: Sealmark, build_image: Build, how: int) -> None:
    (sealmark.cwd / "script").write_text('exec "*/.build/driver" stdout "begun\\n" hang\n')
    (sealmark.cwd / "r.yaml").write_text("{}\n")
    builder = sealmark.start("image", "build", "course", "-f", "r.yaml", *FAKE)
    assert builder.stderr and builder.stderr.readline() == b"begun\n"
    builder.send_signal(how)
    builder.communicate(timeout=60)
    assert builder.returncode == (130 if how == signal.SIGINT else -how)
    done = build_image("course", "commands: [echo 1]\n")  # which sweeps what the other left
    assert done.stdout == b"course@1\n"
    assert states(sealmark) == ["failed", "ready"]
    assert [p.name for p in (sealmark.home / "images").iterdir() if "build" in p.name] == []


WRONG = [
    ("recipe.yaml", "apt: [--evil]\n", [], "recipe.yaml: recipe.apt[0]: must be a package's name"),
    ("recipe.yaml", "aptt: []\n", [], "did you mean apt"),
    ("recipe.yaml", "- x\n", [], "must be a map"),
    ("recipe.yaml", "base: nonsuch\n", [], "image nonsuch"),
    ("recipe.yaml", "apt: [", [], "recipe.yaml:2:1:"),
    ("Dockerfile", "FROM default\nADD a b\n", [], "Dockerfile:2: ADD is not supported"),
    ("Dockerfile", "FROM default\n", ["--arg", "x"], "--arg"),
    ("Dockerfile", "FROM default\n", ["--tag", "3"], "--tag"),
    ("Dockerfile", "FROM default\n", ["--context", "nonsuch"], "--context nonsuch"),
]


@pytest.mark.parametrize(("file", "text", "options", "says"), WRONG)
def test_complaints(
    build_image: Build, file: str, text: str, options: list[str], says: str
) -> None:
    done = build_image("course", text, *options, file=file)
    assert done.returncode == 2
    assert says in done.stderr.decode()


def test_names(sealmark: Sealmark, build_image: Build) -> None:
    assert build_image("Course", "{}\n").returncode == 2
    assert sealmark.run("image", "build", "course").returncode == 2
    assert sealmark.run("image", "build", "x", "-f", "gone.yaml").returncode in (2, 3)
    for command in (["versions", "x"], ["tag", "x", "y"], ["logs", "x"], ["rm", "x"]):
        assert sealmark.run("image", *command).returncode == 2, command


def test_a_context_is_copied(sealmark: Sealmark, build_image: Build, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    done = build_image(
        "x", "FROM default\nCOPY a.txt /\n", "--context", str(tmp_path), file="Dockerfile"
    )
    assert (done.returncode, done.stdout) == (0, b"x@1\n")
