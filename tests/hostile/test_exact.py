# SPDX-License-Identifier: Apache-2.0
"""T24: output is compared byte for byte where that is asked for, and large right output passes."""

import random
from pathlib import Path

import pytest

from hostile.classroom import JOBS, Graded, grade_both, make_submissions, make_tests
from support import Sealmark

E_ACUTE = "é".encode()
CASES = {
    "empty": b"",
    "nul": b"a\0b\0\0",
    "not-utf-8": b"\xff\xfe\x80\xc3\x28\n",
    "every-byte": bytes(range(256)) * 10,
    "no-final-newline": b"one\ntwo",
    "65535": random.Random(1).randbytes(65_535),
    "65536": random.Random(2).randbytes(65_536),
    "65537": random.Random(3).randbytes(65_537),
    "e-acute-across-64K": b"x" * 65_535 + E_ACUTE + b"y\n",
    "1M": random.Random(4).randbytes(1_000_000),
    "1M-of-lines": b"a line of text\n" * 70_000,
}
NOT_EMPTY = tuple(name for name in CASES if name != "empty")
# Each changes its input in one place, if at all; it reads all of it, to the end, first.
PROGRAM = """
import os
import sys

data = bytearray()
while piece := os.read(0, 100_000):
    data += piece
{change}
view = memoryview(data)
while view:
    view = view[os.write(1, view) :]
"""
CHANGES = {
    "same": ("", ()),
    "adds-newline": ("data += b'\\n'", tuple(CASES)),
    "drops-last": ("del data[-1:]", NOT_EMPTY),
    "drops-nul": (
        "data = data.replace(b'\\0', b'')",
        ("nul", "every-byte", "65535", "65536", "65537", "1M"),
    ),
    "flips-one-bit": (
        "if data: data[len(data) // 2] ^= 1",
        NOT_EMPTY,
    ),
    "as-text": (
        "data = data.decode('utf-8', 'replace').encode()",
        ("not-utf-8", "every-byte", "65535", "65536", "65537", "1M"),
    ),
    "one-byte-at-a-time": (
        "for i in range(len(data[:3000])): os.write(1, data[i : i + 1])\ndel data[:3000]",
        (),
    ),
    "fills-stderr": ("os.write(2, b'x' * 1_000_000)", ()),
}
LIMITS = """
    limits: {cpu: 5s, wall: 20s, memory: 64M, output: 2M}
    stdio: {compare: exact, run: [python3, main.py]}
    """


@pytest.fixture(scope="module")
def graded(room: Sealmark, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Graded]:
    folder = tmp_path_factory.mktemp("exact")
    files: dict[str, str | bytes] = {"assignment.yaml": LIMITS}
    for name, data in CASES.items():
        files[f"{name}.in"] = files[f"{name}.out"] = data
    students = {
        name: {"main.py": PROGRAM.format(change=change)} for name, (change, _) in CHANGES.items()
    }
    return grade_both(
        room,
        make_tests(folder / "tests", files),
        make_submissions(folder / "class", students),
        folder / "results",
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("student", CHANGES)
@pytest.mark.parametrize("jobs", JOBS)
def test_exactly_what_was_changed_fails(graded: dict[int, Graded], student: str, jobs: int) -> None:
    for test in graded[jobs].records[student]["tests"]:
        wrong = test["id"] in CHANGES[student][1]
        # of nothing, one byte less is nothing
        allowed = {"failed", "ended_early"} if wrong else {"passed"}
        assert test["verdict"] in allowed, graded[jobs].explain(student)


def test_cut_characters_do_not_spoil_the_record(graded: dict[int, Graded], tmp_path: Path) -> None:
    """Kept are head and tail; what is no text is kept as base64."""
    tests = graded[1].tests("same")
    assert tests["e-acute-across-64K"]["stdout"]["encoding"] == "utf-8"
    assert tests["not-utf-8"]["stdout"]["encoding"] == "base64"
    for name, data in CASES.items():
        assert tests[name]["stdout"]["total_bytes"] == len(data)
        assert tests[name]["stdout"]["truncated"] is (len(data) > 8192)
