# SPDX-License-Identifier: Apache-2.0
"""What `make install` puts somewhere works from there, for root and for an ordinary user."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import BUILD, Sealmark

NOBODY = 65534
FILES = [
    "bin/sealmark",
    "libexec/sealmark/sealmark-monitor",
    "libexec/sealmark/agent.cpio",
    "libexec/sealmark/setup",
    "libexec/sealmark/examiner/launch.py",
    "libexec/sealmark/examiner/sealmark_examiner/__init__.py",
    "share/man/man1/sealmark.1",
    "share/man/man5/sealmark-assignment.5",
    "share/man/man7/sealmark-api.7",
    "share/man/man7/sealmark-operating.7",
    "share/sealmark/guest/kernel/uml.config",
    "share/sealmark/guest/images/default/recipe",
]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation below a folder of its own, as DESTDIR makes it."""
    top = tmp_path_factory.mktemp("installed")
    command = ["/usr/bin/meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"]
    subprocess.run([*command, "--destdir", top], check=True, stdout=subprocess.DEVNULL)
    for folder in (top, *top.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    found = next(top.rglob("bin/sealmark"), None)
    assert found, "bin/sealmark is not installed"
    return found.parent.parent


@pytest.mark.parametrize("name", FILES)
def test_installed_files(prefix: Path, name: str) -> None:
    path = prefix / name
    assert path.is_file()
    assert path.stat().st_mode & 0o022 == 0


def test_nothing_of_the_tests_is_installed(prefix: Path) -> None:
    files = [p.relative_to(prefix) for p in prefix.rglob("*") if p.is_file()]
    assert not [
        f for f in files if f.name.startswith(("test", "bench", "soak")) or f.suffix == ".a"
    ]


def run_installed(
    prefix: Path, vm: Sealmark, uid: int, *args: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [prefix / "bin/sealmark", *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=90,
        cwd="/",
        env=vm.environment(),
        user=uid,
        group=uid,
        extra_groups=[],
    )


def test_root_runs_a_machine(prefix: Path, vm: Sealmark) -> None:
    done = run_installed(prefix, vm, os.geteuid(), "sandbox", "run", "--", "echo", "hello")
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"hello\n"


@pytest.fixture
def home_of_nobody(vm_home: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    shutil.chown(vm_home, NOBODY, NOBODY)
    yield vm_home


def test_ordinary_user_runs_a_machine(prefix: Path, home_of_nobody: Path, vm: Sealmark) -> None:
    done = run_installed(prefix, vm, NOBODY, "sandbox", "run", "--", "sh", "-c", "id -u; exit 9")
    assert done.returncode == 9, done.stderr
    assert done.stdout == b"1000\n"


def test_doctor_for_an_ordinary_user(prefix: Path, home_of_nobody: Path, vm: Sealmark) -> None:
    done = run_installed(prefix, vm, NOBODY, "doctor", "--run")
    text = done.stdout.decode()
    assert done.returncode == 0, text
    assert "as an ordinary user" in text
    assert "This host can grade." in text


def test_home_of_root_is_no_home_for_others(prefix: Path, vm: Sealmark) -> None:
    """The doctor found nothing wrong, and each grade ended with "no such file"."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    done = run_installed(prefix, vm, NOBODY, "doctor")
    text = done.stdout.decode()
    assert done.returncode == 1, text
    assert f"this user cannot write to {vm.home}" in text
    assert "set SEALMARK_HOME to a folder of yours" in text
    done = run_installed(prefix, vm, NOBODY, "sandbox", "run", "--", "true")
    assert done.returncode == 3
    assert b"Permission denied" in done.stderr
