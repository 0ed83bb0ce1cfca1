# SPDX-License-Identifier: Apache-2.0
"""Tools of the tests: the built program, homes for it, and the search for what it leaves."""

import fcntl
import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("SEALMARK_BUILD", ROOT / "build")).resolve()
PROGRAM = BUILD / "src/cli/sealmark"


def real_home() -> Path:
    """Where setup put the guest kernel and the images."""
    default = "/var/lib/sealmark" if os.geteuid() == 0 else "~/.local/share/sealmark"
    return Path(os.environ.get("SEALMARK_HOME") or default).expanduser()


# --- waiting ----------------------------------------------------------------------------------

# Long enough for a host on which everything stands still for seconds: who waits so long has failed.
PATIENCE_S = 60

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, seconds: float = PATIENCE_S) -> T:
    """What the condition gives once that is true; the failure says what was waited for."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        # looked at once more after the time is up: this process may have stood still as well
        if time.monotonic() > deadline and not (value := condition()):
            raise AssertionError(f"waited {seconds:g} s for {what}: {value!r}")
        time.sleep(0.01)
    return value


# --- the program ------------------------------------------------------------------------------


@dataclass
class Sealmark:
    """Runs the built program with a home of its own."""

    home: Path
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        strange = ("SEALMARK_", "RUNTIME_")
        env = {k: v for k, v in os.environ.items() if not k.startswith(strange)}
        # nobody's login: without one, commands work on this host alone
        ours = {"LC_ALL": "C.UTF-8", "SEALMARK_HOME": str(self.home)}
        return {**env, **ours, "XDG_CONFIG_HOME": str(self.home / "config"), **self.env}

    def run(
        self,
        *args: str | Path,
        stdin: bytes = b"",
        timeout: float = 90,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [PROGRAM, *args],
            input=stdin,
            capture_output=True,
            timeout=timeout,
            cwd=self.cwd,
            env={**self.environment(), **(env or {})},
        )

    def start(self, *args: str | Path, **options: object) -> subprocess.Popen[bytes]:
        """The running program, with pipes for input, output and errors unless told otherwise."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [PROGRAM, *args], cwd=self.cwd, env=self.environment(), **{**pipes, **options}
        )


def make_image(home: Path, name: str = "default", version: int = 1) -> Path:
    """An image for the engine fake, which never looks inside."""
    folder = home / "images" / name / str(version)
    folder.mkdir(parents=True)
    contents = b"no file system"
    (folder / "rootfs.erofs").write_bytes(contents)
    manifest = {
        "name": name,
        "version": version,
        "description": "an image of the tests",
        "recipe_digest": "0123456789ab",
        "sha256": hashlib.sha256(contents).hexdigest(),
        "size_bytes": len(contents),
        "created": "2026-01-01T00:00:00Z",
        "suite": "trixie",
        "env": {"PATH": "/usr/bin:/bin"},
        "packages": {"python3": "3.13.5-1", "gcc": "14.2.0-1"},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    latest = folder.parent / "latest"
    latest.unlink(missing_ok=True)
    latest.symlink_to(str(version))
    return folder


# --- what stays behind ------------------------------------------------------------------------


def children() -> set[int]:
    """The live children of this process; dead orphans are reaped on the way."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread may just have ended
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    known = {p.pid for p in getattr(subprocess, "_active", [])}
    for pid in found - known:
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                known.add(pid)
        except ChildProcessError:
            known.add(pid)
    return found - known


def below(pid: int, levels: int = 99) -> list[int]:
    """The processes below one, so many levels deep; those that are just ending may be left out."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    if levels > 1:
        found += [each for child in list(found) for each in below(child, levels - 1)]
    return found


def describe(pid: int) -> str:
    try:
        command = (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode("utf-8", "replace")
        )
        return f"process {pid}: {command or Path(f'/proc/{pid}/comm').read_text().strip()}"
    except OSError:
        return f"process {pid}"


def empty_cgroups() -> set[str]:
    """Cgroups of sandboxes in which nothing runs; those of other runs here have processes."""
    found = set()
    # a walk that passes over what other runs remove meanwhile
    for top, folders, _ in os.walk("/sys/fs/cgroup"):
        if Path(top).name != "sealmark":
            continue
        for group in (Path(top) / name for name in folders):
            try:
                if not (group / "cgroup.procs").read_text().strip():
                    found.add(str(group))
            except OSError:
                continue
        folders.clear()
    return found


def taken_slots(home: Path) -> Iterator[str]:
    for lock in (home / "slots").glob("*"):
        try:
            with lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield f"slot {lock.name} is taken"
        except OSError:
            continue


def what_stays(home: Path, before: set[str]) -> list[str]:
    sandboxes = home / "sandboxes"
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return [
        *(describe(pid) for pid in children()),
        *(f"cgroup {group}" for group in empty_cgroups() - before),
        *(f"mount {line.split()[4]}" for line in mounts if str(home) in line),
        *(f"sandbox directory {p}" for p in (sandboxes.iterdir() if sandboxes.is_dir() else [])),
        *taken_slots(home),
    ]
