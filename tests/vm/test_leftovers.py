# SPDX-License-Identifier: Apache-2.0
"""Nothing stays: after many sandboxes in a row, and after killing any part of one at any moment."""

import json
import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support import BUILD, Sealmark, children, wait_until

MANY = 1000
KILLS = 50


@pytest.mark.timeout(1000)
def test_a_thousand_in_a_row_leave_nothing(vm: Sealmark) -> None:
    done = subprocess.run(
        [BUILD / "tests/bench/soak_sandbox", str(MANY)],
        capture_output=True,
        env=vm.environment(),
        timeout=900,
    )
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    assert told["count"] == MANY
    # a leak of one small block each would be a megabyte
    assert told["growth_kib"] < 1024, told


def family(root: int) -> dict[int, str]:
    """Every process below `root`, with its short name."""
    parents: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        names[int(entry.name)] = name
        parents.setdefault(int(rest.split()[1]), []).append(int(entry.name))
    found: dict[int, str] = {}
    todo = [root]
    while todo:
        for child in parents.get(todo.pop(), []):
            found[child] = names.get(child, "?")
            todo.append(child)
    return found


@pytest.mark.parametrize("seed", range(KILLS))
def test_killed_at_a_random_moment(vm: Sealmark, seed: int) -> None:
    """Monitor, machine or the command itself: the rest ends and the next start sweeps."""
    dice = random.Random(seed)
    options = ("--internet",) if seed % 2 else ()  # with a connector, which may be hit too
    command = vm.start("sandbox", "run", *options, "--", "sh", "-c", "echo on; exec sleep 60")
    # from before there is a monitor until the command in the guest runs
    deadline = time.monotonic() + dice.uniform(0, 0.5)
    while time.monotonic() < deadline:
        time.sleep(0.005)
    below = family(command.pid)
    target = dice.choice([command.pid, *sorted(below)])
    try:
        os.kill(target, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if target == command.pid:
        command.wait(timeout=60)
    else:
        # one of the guest's own processes may die without its machine
        try:
            command.wait(timeout=5)  # it may well go on
        except subprocess.TimeoutExpired:
            command.kill()
            command.wait(timeout=60)
    for pipe in (command.stdin, command.stdout, command.stderr):
        if pipe:
            pipe.close()
    with suppress(AssertionError):  # what stays is told by `leftovers`
        wait_until(lambda: not children(), "the rest to end")
    # whatever was killed, the next command works and removes what a killed keeper left
    after = vm.run("sandbox", "run", "--", "echo", "again")
    assert after.stdout == b"again\n", after.stderr.decode()


def test_home_with_a_long_path(vm: Sealmark, tmp_path: Path) -> None:
    """A socket's address is short: a home of 150 characters was refused."""
    home = tmp_path / ("h" * 150)
    home.mkdir()
    for name in ("kernels", "images"):
        (home / name).symlink_to((vm.home / name).resolve())
    tmp_path.chmod(0o755)
    done = vm.run("sandbox", "run", "--", "echo", "long", env={"SEALMARK_HOME": str(home)})
    assert done.stdout == b"long\n", done.stderr.decode()
