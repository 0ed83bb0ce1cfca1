# SPDX-License-Identifier: Apache-2.0
"""What all tests share: fixtures, and skips that are failures. Their tools are in support.py.

SEALMARK_BUILD names the build folder (default: build beside tests). SEALMARK_CHECK=1 turns skips of
tests that need real machines into failures: where continuous integration must have them, a skip is
a failure.
"""

import ctypes
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from serving import LOGS, said
from support import (
    BUILD,
    PROGRAM,
    ROOT,
    Sealmark,
    children,
    empty_cgroups,
    make_image,
    real_home,
    what_stays,
)

MUST_RUN = {"vm", "hostile", "contract", "web"}
PR_SET_CHILD_SUBREAPER = 36

# --- collection and skips ---------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    # Orphans of what a test starts become children of this process: `leftovers` finds them so.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A shell's & and nohup leave signals ignored, and what a test starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        if folder in MUST_RUN:
            item.add_marker(folder)


# how much each server had said when the test began
logged = pytest.StashKey[dict[str, int]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[logged] = {home: os.fstat(log.fileno()).st_size for home, log in LOGS.items()}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, None]:
    outcome = yield
    report = outcome.get_result()
    if report.failed:  # why is often known to the server or a monitor only
        for home, text in said(item.stash.get(logged, {})):
            report.sections.append((f"server and monitors of {home}, {report.when}", text))
    must_run = any(item.get_closest_marker(mark) for mark in MUST_RUN)
    if os.environ.get("SEALMARK_CHECK") and report.skipped and must_run:
        report.outcome = "failed"
        report.longrepr = f"skipped where it must run: {report.longrepr}"


# --- fixtures ---------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def build() -> Path:
    if not PROGRAM.exists():
        pytest.exit(f"{PROGRAM} is not there: build first (make), or set SEALMARK_BUILD", 3)
    return BUILD


@pytest.fixture
def empty_home() -> Iterator[Path]:
    """A home with a short path: sockets in it have names of at most 107 bytes."""
    home = Path(tempfile.mkdtemp(prefix="sealmark-"))
    home.chmod(0o755)
    yield home
    shutil.rmtree(home)


@pytest.fixture
def sealmark(build: Path, empty_home: Path, tmp_path: Path) -> Sealmark:
    """The program with a home that holds one image, for the engine fake."""
    make_image(empty_home)
    work = tmp_path / "work"
    work.mkdir()
    return Sealmark(empty_home, work)


@pytest.fixture
def vm_home(empty_home: Path) -> Path:
    """A home of its own with the kernel and the images of the real one."""
    for name in ("kernels", "images"):
        source = real_home() / name
        if not source.is_dir():
            pytest.skip(f"{source} is not there: run guest/setup.sh")
        (empty_home / name).symlink_to(source)
    return empty_home


@pytest.fixture
def vm(build: Path, vm_home: Path, tmp_path: Path, leftovers: None) -> Sealmark:
    """The program with real machines; nothing may stay of them after the test."""
    work = tmp_path / "work"
    work.mkdir()
    return Sealmark(vm_home, work)


@pytest.fixture
def leftovers(empty_home: Path) -> Iterator[None]:
    """Fails the test when processes, cgroups, mounts, directories or slots stay behind it.

    A monitor whose owner was killed needs a moment; what is still there after a minute stays.
    """
    assert not children(), "an earlier test left processes"
    before = empty_cgroups()
    yield
    deadline = time.monotonic() + 60
    while (stays := what_stays(empty_home, before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    # one test's processes must not be the next one's failure
    while (alive := children()) and time.monotonic() < deadline + 20:
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    shutil.rmtree(empty_home / "sandboxes", ignore_errors=True)
    assert not stays, "left behind: " + "; ".join(stays)
