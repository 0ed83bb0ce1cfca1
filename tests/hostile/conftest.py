# SPDX-License-Identifier: Apache-2.0
"""What the tests with attacking submissions share: a home for a whole module's machines."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import Sealmark, children, empty_cgroups, real_home, what_stays

collect_ignore = ["submissions"]  # nothing in there is a test of ours


@pytest.fixture(scope="module")
def room(build: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sealmark]:
    """The program with real machines, for all tests of a module; nothing may stay after them."""
    home = Path(tempfile.mkdtemp(prefix="sealmark-"))
    home.chmod(0o755)
    for name in ("kernels", "images"):
        source = real_home() / name
        if not source.is_dir():
            pytest.skip(f"{source} is not there: run guest/setup.sh")
        (home / name).symlink_to(source)
    before = empty_cgroups()
    yield Sealmark(home, tmp_path_factory.mktemp("work"))
    deadline = time.monotonic() + 60
    while (stays := what_stays(home, before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not children(), "processes stay"
    shutil.rmtree(home)
    assert not stays, "left behind: " + "; ".join(stays)
