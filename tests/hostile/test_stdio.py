# SPDX-License-Identifier: Apache-2.0
"""Attacks in C and Python on programs run by cases: submissions/stdio with the right verdicts."""

import pytest

from hostile.classroom import JOBS, SUBMISSIONS, Graded, grade_both, make_class, make_tests
from support import Sealmark

# Programs add two numbers; most attack where the first is 2.
FILES = {
    "01.in": "1 1\n",
    "01.out": "2\n",
    "02.in": "2 3\n",
    "02.out": "5\n",
    "03.in": "1000003 2000005\n",
    "03.out": "3000008\n",
    "assignment.yaml": """
        limits:
          cpu: 1s
          wall: 4s
          memory: 64M
          processes: 32
          output: 256K
          disk: 16M
        stdio:
          compile_limits: {cpu: 4s, wall: 20s, memory: 192M, disk: 16M}
        """,
}
FOLDER, WANTED = "stdio", ""
RIGHT = "a, b = map(int, input().split())\nprint(a + b)\n"
WRONG = "a, b = map(int, input().split())\nprint(a * b + 1000)\n"

# Verdicts of the three cases; one word is for all. Alternatives where it depends on the kernel
# what comes of it, and none earns points that are not deserved.
EXPECTED: dict[str, str | tuple[str, ...]] = {
    "t01_right_c": "passed",
    "t01_right_python": "passed",
    "t02_wrong_c": "failed",
    "t02_wrong_python": "failed",
    "t02_does_not_compile_c": "error",
    "t02_bomb_for_the_compiler_c": ("memory_limit", "cpu_limit", "disk_limit", "error"),
    "t02_includes_endless_c": ("error", "memory_limit", "cpu_limit"),
    "t03_exit_before_main_c": "ended_early",
    "t03_exit_c": "passed ended_early passed",
    "t03_exit_python": "passed ended_early passed",
    "t03_kill_self_c": "passed ended_early passed",
    "t03_crash_c": "passed error passed",
    "t03_abort_c": "passed error passed",
    "t03_status_c": "passed error passed",
    "t07_shadow_python": "passed",
    "t08_atexit_python": "passed ended_early passed",
    "t10_prints_reports_python": "passed error passed",
    "t10_prints_much_python": "failed",
    "t12_daemon_c": "passed",
    "t13_fork_bomb_c": "passed process_limit passed",
    "t13_fork_sleep_c": "passed process_limit passed",
    "t13_fork_bomb_python": "passed process_limit passed",
    "t13_zombies_c": "passed",
    "t14_busy_c": "passed cpu_limit passed",
    "t14_busy_children_c": "passed cpu_limit passed",
    "t14_cpu_of_dead_children_c": "passed cpu_limit passed",
    "t14_sleep_c": "passed wall_limit passed",
    "t14_sleep_python": "passed wall_limit passed",
    "t14_stops_itself_c": "passed wall_limit passed",
    "t14_ignores_signals_c": "passed cpu_limit passed",
    "t14_waits_for_more_input_c": "passed",
    "t15_grows_c": "passed memory_limit passed",
    "t15_ten_gigabytes_python": "passed memory_limit passed",
    "t15_static_array_c": "passed memory_limit passed",
    "t15_static_array_unused_c": "passed",
    "t15_children_c": "passed memory_limit passed",
    "t15_recursion_deep_c": "passed",
    "t15_recursion_deep_python": "passed",
    "t15_recursion_endless_c": "passed memory_limit passed",
    "t15_recursion_endless_python": "passed memory_limit passed",
    "t15_reads_much_c": "passed",
    "t16_flood_c": "passed output_limit passed",
    "t16_newlines_c": "passed output_limit passed",
    "t16_stderr_c": "passed output_limit passed",
    "t16_children_flood_c": "passed output_limit passed",
    "t19_fills_c": "passed disk_limit passed",
    "t19_fills_everywhere_python": "passed disk_limit passed",
    "t19_many_files_c": "passed disk_limit passed",
    "t19_sparse_c": "passed disk_limit passed",
    "t20_kills_all_c": "passed ended_early passed",
    "t20_reboots_c": "passed",
    "x_child_holds_output_c": "passed",
    "x_closes_everything_c": "passed wall_limit passed",
    "x_closes_folder_c": "passed passed error",
    "x_closes_folder_python": "passed passed error",
    "x_deep_folders_c": "passed disk_limit passed",
    "x_garbage_system_calls_c": (
        "passed",
        "passed ended_early passed",
        "passed failed passed",
        "passed wall_limit passed",
        "passed error passed",
    ),
    "x_kernel_memory_c": (
        "passed memory_limit passed",
        "passed cpu_limit passed",
        "passed",
        "passed ended_early passed",
    ),
    "x_many_small_files_c": "passed disk_limit passed",
    "x_program_becomes_a_loop_c": "passed passed error",
    "x_replaces_folder_python": "passed disk_limit passed",
    "x_stack_of_namespaces_c": "passed",
    "x_strange_instructions_c": "passed",
    "x_sudo_python": "passed",
    "x_unmaps_everything_c": "passed",
    "x_vsock_flood_c": "passed",
    "x_writes_to_stub_c": ("passed", "passed error passed", "passed ended_early passed"),
}


@pytest.fixture(scope="module")
def graded(room: Sealmark, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Graded]:
    folder = tmp_path_factory.mktemp("stdio")
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
    assert {record["trust"] for record in run.records.values()} == {"sealed"}
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


@pytest.mark.parametrize("jobs", JOBS)
def test_neighbours_are_unharmed(graded: dict[int, Graded], jobs: int) -> None:
    run = graded[jobs]
    neighbours = [name for name in run.records if "-neighbour-" in name]
    assert len(neighbours) >= 10
    for name in neighbours:
        verdict = "passed" if name.endswith("right") else "failed"
        assert run.verdicts(name) == verdict, run.explain(name)
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
    """What floods and fills a guest is not kept by sealmark or its monitors."""
    peaks = graded[jobs].peak_kib
    assert peaks["sealmark"] < 96 * 1024, peaks
    assert peaks["sealmark-monito"] < 32 * 1024, peaks


@pytest.mark.parametrize("jobs", JOBS)
def test_output_is_cut_and_says_so(graded: dict[int, Graded], jobs: int) -> None:
    for student, stream in (
        ("t16_flood_c", "stdout"),
        ("t16_newlines_c", "stdout"),
        ("t16_stderr_c", "stderr"),
        ("t16_children_flood_c", "stdout"),
    ):
        kept = graded[jobs].tests(student)["02"][stream]
        assert kept["truncated"] is True
        assert kept["total_bytes"] <= 512 << 10
        assert len(kept["head"]) + len(kept["tail"]) <= 8192
    for test in graded[jobs].tests("t01_right_c").values():
        assert test["stdout"]["truncated"] is False


@pytest.mark.parametrize("jobs", JOBS)
def test_output_before_a_limit_is_kept(graded: dict[int, Graded], jobs: int) -> None:
    for student in ("t14_sleep_c", "t14_sleep_python"):
        assert graded[jobs].tests(student)["02"]["stdout"]["head"] == "so far\n"


@pytest.mark.parametrize("jobs", JOBS)
def test_sleep_costs_no_cpu_time_and_children_do(graded: dict[int, Graded], jobs: int) -> None:
    asleep = graded[jobs].tests("t14_sleep_c")["02"]
    assert asleep["cpu_ms"] < 500
    assert asleep["wall_ms"] >= 4000
    for student in ("t14_busy_c", "t14_busy_children_c", "t14_cpu_of_dead_children_c"):
        assert graded[jobs].tests(student)["02"]["cpu_ms"] >= 1000


@pytest.mark.parametrize("jobs", JOBS)
def test_compiler_says_what_is_wrong(graded: dict[int, Graded], jobs: int) -> None:
    for test in graded[jobs].tests("t02_does_not_compile_c").values():
        assert "does not compile" in test["detail"]
