# SPDX-License-Identifier: Apache-2.0
"""Failures of machines and of ours under the program: statuses, second tries, blank scores."""

import csv
import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support import Sealmark, below, wait_until

OK, ATTENTION, OURS = 0, 1, 3
FAKE = ("sandbox", "run", "--require-isolation", "none", "--engine", "fake", "--script")


def keeper_of(pid: int) -> int | None:
    """The keeper among the children of the program: its name is the monitor's."""

    def name(child: int) -> str:
        try:
            return Path(f"/proc/{child}/comm").read_text().strip()
        except OSError:
            return ""

    for child in below(pid, 1):
        if name(child).startswith("sealmark-monito"):
            return child
    return None


# --- sandbox run --------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", ["die", "half", "garbage"])
@pytest.mark.parametrize("message", ["FILE_WRITE", "DATA", "END"])
def test_machine_fails_while_files_are_sent(
    sealmark: Sealmark, leftovers: None, trouble: str, message: str
) -> None:
    (sealmark.cwd / "big").write_bytes(bytes(3_000_000))
    script = sealmark.cwd / "script"
    script.write_text(f"{trouble} at {message}\n")
    done = sealmark.run(*FAKE, script, "--file", "big:/workspace/big", "--", "prog")
    assert done.returncode == OURS
    assert done.stdout == b""
    assert done.stderr.startswith(b"sealmark: ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("trouble", ["die", "garbage", "half"])
def test_machine_fails_in_a_stream(sealmark: Sealmark, leftovers: None, trouble: str) -> None:
    """Output that was passed on stays; the status says that it is not whole."""
    script = sealmark.cwd / "script"
    script.write_text(f'exec "prog" flood 3000000 exit 0\n{trouble} at CREDIT 3\n')
    done = sealmark.run(*FAKE, script, "--", "prog")
    assert done.returncode == OURS
    assert set(done.stdout) <= {ord("x")}
    assert done.stderr.startswith(b"sealmark: ")


def test_mute_machine(sealmark: Sealmark, leftovers: None) -> None:
    """A command that the machine does not end at its limit is our failure, not a time limit."""
    script = sealmark.cwd / "script"
    script.write_text("mute at EXEC\n")
    done = sealmark.run(*FAKE, script, "--timeout", "0.1", "--", "prog")
    assert done.returncode == OURS
    assert b"did not end a command at its time limit" in done.stderr


@pytest.mark.parametrize("which", ["keeper", "machine", "monitor"])
def test_killed_parts(sealmark: Sealmark, leftovers: None, which: str) -> None:
    script = sealmark.cwd / "script"
    script.write_text('exec "prog" stdout "up" hang\n')
    run = sealmark.start(*FAKE, script, "--", "prog", bufsize=0)
    assert run.stdout
    assert run.stdout.read(2) == b"up"
    keeper = wait_until(lambda: keeper_of(run.pid), "the keeper")
    machine, monitor = below(keeper, 1)
    os.kill({"keeper": keeper, "machine": machine, "monitor": monitor}[which], signal.SIGKILL)
    _, err = run.communicate(timeout=60)
    assert run.returncode == OURS
    assert err.startswith(b"sealmark: ")
    if which == "keeper":  # its directory is swept by the next one that comes
        done = sealmark.run(*FAKE, script, "--", "other")
        assert done.returncode == OK


# --- grade --------------------------------------------------------------------------------------


class Class:
    def __init__(self, sealmark: Sealmark, script: str) -> None:
        self.sealmark = sealmark
        base = sealmark.cwd
        for name in ("tests", "subs"):
            (base / name).mkdir()
        for number in ("01", "02"):
            (base / f"tests/{number}.in").write_text("1\n")
            (base / f"tests/{number}.out").write_text("1\n")
        (base / "tests/assignment.yaml").write_text(
            "name: hw\nrunner: stdio\nrequire_isolation: none\nlimits: {cpu: 10s, wall: 10s}\n"
        )
        for name in ("a", "b"):
            (base / f"subs/{name}.py").write_text(f"# {name}\n")
        (base / "script").write_text(script)
        self.out = base / "sealmark-results/hw"

    def arguments(self) -> list[str]:
        return ["grade", "tests", "subs", "--engine", "fake", "--script", "script", "-j1"]

    def grade(self) -> subprocess.CompletedProcess[bytes]:
        return self.sealmark.run(*self.arguments())

    def rows(self) -> dict[str, dict[str, str]]:
        with (self.out / "gradebook.csv").open(newline="", encoding="utf-8") as file:
            return {row["student"]: row for row in csv.DictReader(file)}

    def records(self) -> dict[str, dict[str, Any]]:
        lines = (self.out / "results.jsonl").read_text(encoding="utf-8").splitlines()
        return {r["student"]: r for r in map(json.loads, lines)}


@pytest.mark.parametrize("trouble", ["die", "half", "garbage"])
@pytest.mark.parametrize("message", ["TAR_IN", "END"])
def test_failures_before_the_student_ran_are_ours(
    sealmark: Sealmark, leftovers: None, trouble: str, message: str
) -> None:
    """Tried again, then left blank: nobody loses points by them."""
    hw = Class(sealmark, f'exec "*" echo\n{trouble} at {message}\n')
    done = hw.grade()
    assert done.returncode in (ATTENTION, OURS)
    assert {(r["status"], r["score"]) for r in hw.rows().values()} == {("infra", "")}
    assert all(r["usage"]["machines"] > 1 for r in hw.records().values())


@pytest.mark.parametrize("trouble", ["die", "half", "garbage"])
def test_failures_under_a_program_each_time_are_its_doing(
    sealmark: Sealmark, leftovers: None, trouble: str
) -> None:
    hw = Class(sealmark, f'exec "*" echo\n{trouble} at EXEC 2\n')
    assert hw.grade().returncode == OK
    for record in hw.records().values():
        assert [t["verdict"] for t in record["tests"]] == ["passed", "ended_early"]


def test_killed_keeper_is_no_verdict(sealmark: Sealmark, leftovers: None) -> None:
    """The machine dies with its keeper, and that once looked as if the program had ended it."""
    hw = Class(sealmark, 'exec "*" delay 3000 echo\n')
    run = sealmark.start(*hw.arguments())
    killed = set()

    def at_work() -> int | None:
        keeper = keeper_of(run.pid)
        return keeper if keeper not in killed and keeper and len(below(keeper, 1)) == 2 else None

    for _ in range(2):  # twice would be a verdict
        keeper = wait_until(at_work, "a keeper with its machine and its monitor")
        time.sleep(0.3)  # into the first test, unless the host stands still
        with suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGKILL)
        killed.add(keeper)
    out, err = run.communicate(timeout=80)
    assert run.returncode in (OK, ATTENTION), err
    for record in hw.records().values():
        assert all(t["verdict"] == "passed" for t in record["tests"]), record
    assert sealmark.run(*FAKE, "script", "--", "sweep").returncode == OK
