# SPDX-License-Identifier: Apache-2.0
"""The scripted server of the cases."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from scripting import CASES, Scripted


@pytest.fixture(scope="session")
def scripted() -> Iterator[Scripted]:
    server = subprocess.Popen(
        [sys.executable, CASES / "scripted.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout
    yield Scripted(server.stdout.readline().strip())
    server.communicate()
