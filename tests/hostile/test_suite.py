# SPDX-License-Identifier: Apache-2.0
"""Attacks on hidden unittest tests: each submission of submissions/suite with its right verdict."""

import pytest

from hostile.classroom import JOBS, SUBMISSIONS, Graded, grade_both, make_class, make_tests
from support import Sealmark

# A student may leave, loop, fork or print in one test: most do so where a is 2. The others show
# that all else goes on.
TESTS = """
    import unittest

    from hw import add


    class TestAdd(unittest.TestCase):
        def test_large(self):
            self.assertEqual(add(1000003, 2000005), 3000008)

        def test_small(self):
            self.assertEqual(add(2, 3), 5)

        def test_text(self):
            self.assertEqual(add("ab", "cd"), "abcd")
    """
ASSIGNMENT = """
    files: hw.py
    limits:
      cpu: 1s
      wall: 4s
      memory: 64M
      processes: 16
      output: 256K
      disk: 32M
    """
FOLDER, WANTED = "suite", "hw.py"
FILES = {"test_hw.py": TESTS, "assignment.yaml": ASSIGNMENT}
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a * 2\n"

# Verdicts of test_large, test_small and test_text; one word is for all. Alternatives where
# it depends on which of two things comes first, and neither earns points.
EXPECTED: dict[str, str | tuple[str, ...]] = {
    "t01_right": "passed",
    "t02_wrong": "failed",
    "t03_exit_at_import": "ended_early",
    "t03_exit_in_function": "passed ended_early passed",
    "t03_kill_self": "passed ended_early passed",
    "t03_exec_true": "passed ended_early passed",
    "t03_exit_in_thread": "passed ended_early passed",
    "t03_crash": "passed error passed",
    "t03_child_answers": "passed ended_early passed",
    "t04_sys_exit": "passed ended_early passed",
    "t04_sys_exit_at_import": "ended_early",
    "t04_keyboard_interrupt": "passed ended_early passed",
    "t04_own_base_exception": "passed error passed",
    "t05_equal_to_all": "failed",
    "t05_int_and_str": "failed",
    "t05_claims_to_be_int": "failed",
    "t05_class_equal_to_all": "failed",
    "t05_subclasses": "failed",
    "t06_patches_builtins": "failed",
    "t06_traces": "failed",
    "t06_patches_wrong": "failed",
    "t06_patches_right": "passed",
    "t06_patches_pytest": "failed",
    "t06_patches_examiner": "failed",
    "t07_shadow_wrong": "failed",
    "t07_shadow_right": "passed",
    "t08_atexit": "failed ended_early failed",
    "t09_skip_unittest": "error",
    "t09_skip_at_import": "error",
    "t09_skip_pytest": "error",
    "t10_prints_reports": "failed",
    "t10_writes_all_descriptors": ("failed error failed",),
    "t11_writes_results": "failed",
    "t12_daemon": "passed",
    "t12_daemon_writes": "passed",
    "t13_fork_bomb": "passed process_limit passed",
    "t13_fork_until_refused": "passed process_limit passed",
    "t13_threads": "passed process_limit passed",
    "t13_at_import": "process_limit",
    "t14_busy": "passed cpu_limit passed",
    "t14_busy_in_c": "passed cpu_limit passed",
    "t14_busy_children": "passed cpu_limit passed",
    "t14_sleep": "passed wall_limit passed",
    "t14_stops_itself": "passed wall_limit passed",
    "t14_busy_at_import": "cpu_limit",
    "t14_waits_for_input": "passed failed passed",
    "t15_ten_gigabytes": "passed memory_limit passed",
    "t15_grows": "passed memory_limit passed",
    "t15_children": "passed memory_limit passed",
    "t15_recursion_deep": "passed",
    "t15_recursion_endless": "passed memory_limit passed",
    "t15_recursion_limit": "passed error passed",
    "t16_flood": "passed output_limit passed",
    "t16_newlines": "passed output_limit passed",
    "t16_stderr": "passed output_limit passed",
    "t16_large_answer": "passed failed passed",
    "t16_answer_too_large": "passed error passed",
    "t17_network": "passed",
    "t19_fills": "passed disk_limit passed",
    "t19_fills_everywhere": "passed disk_limit passed",
    "t19_sparse": "passed disk_limit passed",
    "t20_kills_all": "passed ended_early passed",
    "t20_signals_everyone": "passed failed passed",
    "t20_reboots": "passed",
    "x_answer_collides": "passed failed passed",
    "x_answer_collides_in_set": ("passed wall_limit passed", "passed failed passed"),
    "x_answer_is_a_bomb": ("passed memory_limit not_run", "passed error passed"),
    "x_answer_is_a_fraction": ("passed wall_limit passed", "passed error passed"),
    "x_answer_never_ends": "failed cpu_limit failed",
    "x_answer_power": "passed failed failed",
    "x_channel_asks_for_anything": "failed error failed",
    "x_channel_asks_forever": "passed cpu_limit passed",
    "x_channel_closed": "passed error passed",
    "x_channel_garbage": "passed error passed",
    "x_channel_half_message": "passed wall_limit passed",
    "x_channel_two_answers": (
        "passed error passed",
        "passed failed error",
        "passed failed failed",
    ),
    "x_closes_folder": "passed ended_early ended_early",
    "x_closes_folder_and_bomb": (
        "passed wall_limit ended_early",
        "passed memory_limit ended_early",
        "passed ended_early ended_early",
        "passed error ended_early",
    ),
    "x_error_pretends": ("failed error failed", "error"),
    "x_module_pretends": "error",
    "x_plants_for_pytest": "failed",
    "x_stack_of_namespaces": "passed failed passed",
    "x_sudo": "passed",
}
CHEATS = {
    "t03_exit_at_import": "exit",
    "t04_sys_exit": "exit",
    "t05_equal_to_all": "equal_to_all",
    "t06_patches_wrong": "patched",
    "t07_shadow_wrong": "shadow",
    "t07_shadow_right": "shadow",
    "t09_skip_unittest": "skip",
    "t10_prints_reports": "forged_report",
    "t11_writes_results": "forged_report",
    "x_channel_garbage": "protocol",
}


@pytest.fixture(scope="module")
def graded(room: Sealmark, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Graded]:
    folder = tmp_path_factory.mktemp("suite")
    tests = make_tests(folder / "tests", FILES)
    make_class(folder / "class", SUBMISSIONS / FOLDER, RIGHT, WRONG, WANTED)
    return grade_both(room, tests, folder / "class", folder / "results")


def students() -> list[str]:
    return sorted(entry.stem for entry in (SUBMISSIONS / FOLDER).iterdir())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("jobs", JOBS)
def test_all_are_graded(graded: dict[int, Graded], jobs: int) -> None:
    run = graded[jobs]
    assert run.status == 0, run.stderr[-3000:]
    assert {record["status"] for record in run.records.values()} == {"graded"}
    assert {record["trust"] for record in run.records.values()} == {"guarded"}
    assert set(students()) <= set(run.records)
    assert set(students()) == set(EXPECTED)


@pytest.mark.parametrize("student", students())
@pytest.mark.parametrize("jobs", JOBS)
def test_verdicts(graded: dict[int, Graded], student: str, jobs: int) -> None:
    expected = EXPECTED[student]
    right = (expected,) if isinstance(expected, str) else expected
    assert graded[jobs].verdicts(student) in right, graded[jobs].explain(student)
    record = graded[jobs].records[student]
    passed = [test for test in record["tests"] if test["verdict"] == "passed"]
    assert record["score"] == len(passed)
    assert record["max_score"] == 3
    if student in CHEATS:
        assert CHEATS[student] in record["cheats"], graded[jobs].explain(student)


@pytest.mark.parametrize("jobs", JOBS)
def test_neighbours_are_unharmed(graded: dict[int, Graded], jobs: int) -> None:
    run = graded[jobs]
    neighbours = [name for name in run.records if "-neighbour-" in name]
    assert len(neighbours) >= 10
    for name in neighbours:
        verdict = "passed" if name.endswith("right") else "failed"
        assert run.verdicts(name) == verdict, run.explain(name)
        assert run.records[name]["cheats"] == []
        assert run.records[name]["usage"]["machines"] == 1


def test_verdicts_do_not_depend_on_jobs(graded: dict[int, Graded]) -> None:
    one, eight = graded[1], graded[8]
    assert set(one.records) == set(eight.records)
    different = {
        name: (one.verdicts(name), eight.verdicts(name))
        for name in one.records
        if one.verdicts(name) != eight.verdicts(name) and not isinstance(EXPECTED.get(name), tuple)
    }
    assert not different


@pytest.mark.parametrize("jobs", JOBS)
def test_memory_of_the_host_stays_flat(graded: dict[int, Graded], jobs: int) -> None:
    """Floods, bombs and answers of many megabytes are not kept by sealmark or its monitors."""
    peaks = graded[jobs].peak_kib
    assert peaks["sealmark"] < 96 * 1024, peaks
    assert peaks["sealmark-monito"] < 32 * 1024, peaks


@pytest.mark.parametrize("jobs", JOBS)
def test_output_is_cut_and_says_so(graded: dict[int, Graded], jobs: int) -> None:
    for student, stream in (
        ("t16_flood", "stdout"),
        ("t16_newlines", "stdout"),
        ("t16_stderr", "stderr"),
    ):
        kept = graded[jobs].tests(student)["test_small"][stream]
        assert kept["truncated"] is True
        assert kept["total_bytes"] <= 512 << 10
        assert len(kept["head"]) + len(kept["tail"]) <= 8192
    for test in graded[jobs].tests("t01_right").values():
        assert test["stdout"]["truncated"] is False


@pytest.mark.parametrize("jobs", JOBS)
def test_output_before_a_limit_is_kept(graded: dict[int, Graded], jobs: int) -> None:
    assert graded[jobs].tests("t14_sleep")["test_small"]["stdout"]["head"] == "so far\n"


@pytest.mark.parametrize("jobs", JOBS)
def test_sleep_costs_no_cpu_time_and_children_do(graded: dict[int, Graded], jobs: int) -> None:
    asleep = graded[jobs].tests("t14_sleep")["test_small"]
    assert asleep["cpu_ms"] < 500
    assert asleep["wall_ms"] >= 4000
    for student in ("t14_busy", "t14_busy_in_c", "t14_busy_children"):
        assert graded[jobs].tests(student)["test_small"]["cpu_ms"] >= 1000
