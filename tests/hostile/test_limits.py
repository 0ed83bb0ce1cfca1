# SPDX-License-Identifier: Apache-2.0
"""What the author of an assignment may get wrong: refused, and never full marks."""

from pathlib import Path

import pytest

from hostile.classroom import grade, make_submissions, make_tests
from support import Sealmark

PROGRAM = {"main.py": "print(5)\n", "hw.py": "def add(a, b):\n    return a + b\n"}


@pytest.mark.parametrize(
    "files",
    [
        {"README": "none yet\n"},
        {"test_hw.py": "import hw\n"},
        {"test_hw.py": "import hw, unittest\nclass Test(unittest.TestCase): pass\n"},
        {"test_hw.py": "import pytest\nimport hw\n\n\ndef helper():\n    pass\n"},
        {"assignment.yaml": "runner: suite\n"},
        {"assignment.yaml": "runner: stdio\n"},
    ],
)
def test_a_pack_without_tests_is_an_error(
    room: Sealmark, tmp_path: Path, files: dict[str, str]
) -> None:
    students = make_submissions(tmp_path / "class", {"a": PROGRAM})
    run = grade(room, make_tests(tmp_path / "tests", files), students, tmp_path / "out", 1)
    assert run.status == 2, (run.status, run.stderr)
    assert run.records == {}
    assert "test" in run.stderr or "case" in run.stderr


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ("memory: 1M", "limits.memory"),
        ("memory: 0", "limits.memory"),
        ("cpu: 0s", "limits.cpu"),
        ("cpu: 1ms", "limits.cpu"),
        ("wall: 1ms", "limits.wall"),
        ("processes: 0", "limits.processes"),
        ("output: 0", "limits.output"),
        ("disk: 1", "limits.disk"),
        ("memory: 100000G", "limits.memory"),
    ],
)
def test_a_limit_too_small_or_large_is_refused(
    room: Sealmark, tmp_path: Path, limits: str, named: str
) -> None:
    tests = {"1.in": "", "1.out": "5\n", "assignment.yaml": f"limits: {{{limits}}}\n"}
    students = make_submissions(tmp_path / "class", {"a": PROGRAM})
    run = grade(room, make_tests(tmp_path / "tests", tests), students, tmp_path / "out", 1)
    assert run.status == 2, (run.status, run.stderr)
    assert named in run.stderr
    assert "assignment.yaml:1:" in run.stderr
    assert run.records == {}


def test_the_least_limits_give_verdicts(room: Sealmark, tmp_path: Path) -> None:
    """What may be asked for is tight, but it is the program that fails, with a limit's name."""
    limits = "limits: {memory: 16M, processes: 1, output: 1, disk: 1M, file: 1}\n"
    tests = {"1.in": "", "1.out": "5\n", "assignment.yaml": limits}
    program = {"main.py": "print(5)\n"}
    threads = {"main.py": "import threading\nthreading.Thread(target=print).start()\nprint(5)\n"}
    memory = {"main.py": "held = b'x' * (32 << 20)\nprint(5)\n"}
    students = make_submissions(
        tmp_path / "class", {"a": program, "memory": memory, "threads": threads}
    )
    run = grade(room, make_tests(tmp_path / "tests", tests), students, tmp_path / "out", 2)
    assert run.status == 0, run.stderr
    assert run.verdicts("a") == "output_limit", run.explain("a")
    assert run.verdicts("memory") == "memory_limit", run.explain("memory")
    assert run.verdicts("threads") in ("process_limit", "output_limit"), run.explain("threads")


@pytest.mark.parametrize(
    "option",
    [("--memory", "1M"), ("--timeout", "0s"), ("--disk", "0"), ("--processes", "0")],
)
def test_sandbox_refuses_a_limit_too_small(room: Sealmark, option: tuple[str, str]) -> None:
    done = room.run("sandbox", "run", *option, "--", "true")
    assert done.returncode == 2, done
    assert option[0].encode() in done.stderr
