# SPDX-License-Identifier: Apache-2.0
"""sealmark show: a graded class, test by test and student by student."""

import json
from pathlib import Path

import pytest

from support import Sealmark

USAGE = 2


SCRIPT = """
exec "*right*" echo
exec "*crash*" stderr "Traceback\\nNameError: x\\n" exit 1
exec "*segv*" signal 11
exec "*escape*" stdout "\\x1b[2J\\xe2\\x80\\xae" exit 0
"""
FILES = {
    "tests/01.in": "1\n",
    "tests/01.out": "1\n",
    "tests/02.in": "2\n",
    "tests/02.out": "3\n",  # wrong: the right ones print 2
    "tests/assignment.yaml": "name: hw\nrequire_isolation: none\n",
    "script": SCRIPT,
}
STUDENTS = ("right", "right2", "crash", "escape", "segv")


class Graded:
    def __init__(self, sealmark: Sealmark) -> None:
        self.sealmark = sealmark
        self.out = sealmark.cwd / "out"
        files = FILES | {f"subs/{name}.py": f"# {name}\n" for name in STUDENTS}
        for name, text in files.items():
            path = sealmark.cwd / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        fake = ("--engine", "fake", "--script", "script")
        self.done = sealmark.run("grade", "tests", "subs", "-o", "out", *fake)

    def show(self, *args: str) -> str:
        done = self.sealmark.run("show", self.out, *args)
        assert done.returncode == 0, done.stderr
        assert b"\x1b" not in done.stdout
        return done.stdout.decode()


@pytest.fixture
def graded(sealmark: Sealmark, leftovers: None) -> Graded:
    graded = Graded(sealmark)
    assert graded.done.returncode == 0, graded.done.stderr
    return graded


def test_a_test_that_nobody_passed_is_named(graded: Graded) -> None:
    last = graded.done.stdout.decode().splitlines()[-1]
    assert last == f"nobody passed test 2; what was answered: sealmark show {graded.out}"


def test_each_test_with_what_went_wrong(graded: Graded) -> None:
    text = graded.show()
    assert text.startswith("5 submissions, 5 of them graded, with 2 tests\n")
    assert "   1.  01  passed by 2 of 5\n" in text
    assert "   2.  02  passed by 0 of 5: is the test right?\n       2 x " in text
    sums = {test["id"]: test for test in json.loads(graded.show("--json"))}
    assert sums["01"]["verdicts"]["passed"] == 2
    assert sum(sums["02"]["answers"].values()) == sums["02"]["graded"] == 5


def test_one_student(graded: Graded) -> None:
    text = graded.show("crash")
    assert text.startswith("crash: graded 0/2; error in 2 tests\n")
    assert "   1.  01  error  0/1\n" in text
    assert "       stderr:\n         | Traceback\n         | NameError: x\n" in text
    passed = graded.show("right").splitlines()
    assert passed[1] == "   1.  01  passed  1/1"
    assert passed[2].startswith("   2.  02  failed")
    assert json.loads(graded.show("crash", "--json"))["student"] == "crash"
    # what would clear a terminal is printed, and harmless
    assert "\\x1b[2J" in graded.show("escape")


@pytest.mark.parametrize("test", ["1", "01"])
def test_one_test_of_all(graded: Graded, test: str) -> None:
    text = graded.show("--test", test)
    assert "crash: error\n" in text
    assert "right:" not in text
    assert text.endswith("\n2 passed\n")


def test_complaints(graded: Graded) -> None:
    for args, says in (
        ((Path("tests"),), b"holds no results.jsonl"),
        ((graded.out, "crsh"), b'did you mean "crash"?'),
        ((graded.out, "--test", "3"), b"from 1 to 2"),
        ((graded.out, "crash", "--test", "1"), b"leave out STUDENT"),
    ):
        done = graded.sealmark.run("show", *args)
        assert done.returncode == USAGE
        assert says in done.stderr


@pytest.mark.parametrize("line", ["{}", "nonsense", '{"student": "x", "tests": 3}', "[]"])
def test_a_record_that_is_none(graded: Graded, line: str) -> None:
    results = graded.out / "results.jsonl"
    results.write_text(results.read_text() + line + "\n")
    done = graded.sealmark.run("show", graded.out)
    assert done.returncode == USAGE
    assert b"line 6: is no record of a submission" in done.stderr
