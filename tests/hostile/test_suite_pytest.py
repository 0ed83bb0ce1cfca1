# SPDX-License-Identifier: Apache-2.0
"""Attacks on hidden pytest tests: where pytest is another way in than unittest is."""

import pytest

from hostile.classroom import JOBS, SUBMISSIONS, Graded, grade_both, make_class, make_tests
from hostile.test_suite import ASSIGNMENT, EXPECTED, FOLDER, RIGHT, WANTED, WRONG
from support import Sealmark

TESTS = """
    import pytest

    from hw import add


    @pytest.fixture
    def expected():
        yield {"large": 3000008, "small": 5}


    def test_large(expected):
        assert add(1000003, 2000005) == expected["large"]


    def test_small(expected):
        assert add(2, 3) == expected["small"]


    @pytest.mark.parametrize("right", ["abcd"])
    def test_text(right, capsys):
        result = add("ab", "cd")
        capsys.readouterr()
        assert result == right
    """
CONFTEST = """
    import pytest


    @pytest.fixture(autouse=True)
    def around():
        yield
    """
CHOSEN = (
    *("t01_right", "t02_wrong", "t03_exit_at_import", "t03_exit_in_function", "t04_sys_exit"),
    *("t04_keyboard_interrupt", "t05_equal_to_all", "t05_int_and_str", "t05_claims_to_be_int"),
    *("t06_patches_wrong", "t06_patches_right", "t06_patches_pytest", "t07_shadow_wrong"),
    *("t07_shadow_right", "t08_atexit", "t09_skip_unittest", "t09_skip_pytest"),
    *("t09_skip_at_import", "t10_prints_reports", "t12_daemon", "t13_threads"),
    *("t05_subclasses", "t06_patches_builtins", "t06_traces"),
    *("t14_sleep", "t15_grows", "t16_flood", "t19_fills", "t20_kills_all", "x_error_pretends"),
    "x_module_pretends",
)


@pytest.fixture(scope="module")
def graded(room: Sealmark, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Graded]:
    folder = tmp_path_factory.mktemp("pytest-suite")
    files = {"test_hw.py": TESTS, "conftest.py": CONFTEST, "assignment.yaml": ASSIGNMENT}
    tests = make_tests(folder / "tests", files)
    make_class(folder / "class", SUBMISSIONS / FOLDER, RIGHT, WRONG, WANTED, CHOSEN)
    return grade_both(room, tests, folder / "class", folder / "results")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("student", CHOSEN)
@pytest.mark.parametrize("jobs", JOBS)
def test_verdicts(graded: dict[int, Graded], student: str, jobs: int) -> None:
    expected = EXPECTED[student]
    right = (expected,) if isinstance(expected, str) else expected
    assert graded[jobs].verdicts(student) in right, graded[jobs].explain(student)
    record = graded[jobs].records[student]
    assert record["status"] == "graded"
    assert record["score"] == sum(test["verdict"] == "passed" for test in record["tests"])


@pytest.mark.parametrize("jobs", JOBS)
def test_neighbours_are_unharmed(graded: dict[int, Graded], jobs: int) -> None:
    run = graded[jobs]
    assert run.status == 0, run.stderr
    neighbours = [name for name in run.records if "-neighbour-" in name]
    assert len(neighbours) >= 6
    for name in neighbours:
        verdict = "passed" if name.endswith("right") else "failed"
        assert run.verdicts(name) == verdict, run.explain(name)


def test_verdicts_do_not_depend_on_jobs(graded: dict[int, Graded]) -> None:
    one, eight = graded[1], graded[8]
    for name in one.records:
        if not isinstance(EXPECTED.get(name), tuple):
            assert one.verdicts(name) == eight.verdicts(name), eight.explain(name)
