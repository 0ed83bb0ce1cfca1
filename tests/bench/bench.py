#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benches of SPECIFICATION.md: sandboxes, and grading against podman and bubblewrap.

Prints one table with the host's facts. Every figure is of this run; rivals run the same tests on
the same root file system in the same run, so that ratios mean something on a noisy machine. CPU is
that of every process that a tool started, also of those that it leaves behind (conmon): this
program reaps them. Asserts nothing.

    tests/bench/bench.py                    all
    tests/bench/bench.py sandbox grade      some
    tests/bench/bench.py scale --sizes 20,200,2000
"""

import argparse
import ctypes
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SEALMARK_BUILD", ROOT / "build")).resolve()
HOME = Path(os.environ.get("SEALMARK_HOME", "/var/lib/sealmark"))
PR_SET_CHILD_SUBREAPER = 36

SOLUTION = """\
def add(a, b):
    return a + b


def mean(values):
    return sum(values) / len(values)


def words(text):
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    return counts
"""

TESTS = """\
import unittest

import hw


class TestHw(unittest.TestCase):
    def test_add(self):
        for a in range(20):
            self.assertEqual(hw.add(a, 3), a + 3)

    def test_mean(self):
        self.assertAlmostEqual(hw.mean([1, 2, 3, 4]), 2.5)

    def test_words(self):
        self.assertEqual(hw.words("a b a"), {"a": 2, "b": 1})


if __name__ == "__main__":
    unittest.main()
"""

C_SOLUTION = """\
#include <stdio.h>
int main(void)
{
	long sum = 0, x;
	while (scanf("%ld", &x) == 1)
		sum += x;
	printf("%ld\\n", sum);
	return 0;
}
"""


# --- measuring --------------------------------------------------------------------------------


def reaped_seconds() -> float:
    """CPU seconds of every descendant that has ended; orphans come here, too."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def have_children() -> bool:
    return bool(Path(f"/proc/self/task/{os.getpid()}/children").read_text().strip())


class Measured:
    wall = 0.0
    cpu = 0.0


@contextmanager
def measured() -> Iterator[Measured]:
    """Wall time, and CPU time of all that the block started, with what it left behind."""
    result = Measured()
    from_cpu, from_wall = reaped_seconds(), time.monotonic()
    yield result
    result.wall = time.monotonic() - from_wall
    end = time.monotonic() + 10
    result.cpu = reaped_seconds() - from_cpu
    while have_children() and time.monotonic() < end:
        time.sleep(0.01)
        result.cpu = reaped_seconds() - from_cpu


def run(*argv: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(a) for a in argv], check=True, capture_output=True, text=True, **options
    )


# --- rows -------------------------------------------------------------------------------------

ROWS: list[tuple[str, str, str]] = []


def row(what: str, value: str, against: str = "") -> None:
    ROWS.append((what, value, against))
    print(f"  {what}: {value}  {against}", file=sys.stderr)


def table() -> None:
    widths = [max(len(r[i]) for r in ROWS) for i in range(2)]
    print()
    for what, value, against in ROWS:
        print(f"{what:<{widths[0]}}  {value:<{widths[1]}}  {against}".rstrip())


def facts() -> None:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    kernel = json.loads((HOME / "kernels/uml/manifest.json").read_text())["version"]
    load = os.getloadavg()[0]
    row("host", f"{os.cpu_count()} x {model}, {memory} GiB", f"Linux {platform.release()}")
    row("guest kernel", f"UML {kernel}", f"load before the run {load:.1f}")


# --- benches ----------------------------------------------------------------------------------


def bench_sandbox() -> None:
    told = json.loads(run(BUILD / "tests/bench/bench_sandbox").stdout)
    row("cold create to first result", f"{told['create_ms']:.1f} ms", "goal <= 120 ms")
    row("  of it until the agent's hello", f"{told['boot_ms']:.1f} ms")
    row("stop until nothing is left", f"{told['stop_ms']:.1f} ms")
    row("exec round trip of true", f"{told['exec_ms']:.2f} ms")
    row("  started and waited for in the guest", f"{told['exec_own_ms']:.2f} ms")
    row("  beyond that", f"{told['exec_beyond_ms']:.2f} ms", "goal <= 3 ms")
    row("channel into the guest", f"{told['channel_in_mb_s']:.0f} MB/s", "goal >= 300 MB/s")
    row("channel out of the guest", f"{told['channel_out_mb_s']:.0f} MB/s")
    row("idle sandbox, all processes", f"{told['idle_mib']:.1f} MiB", "goal <= 30 MiB")


def make_class(folder: Path, count: int) -> tuple[Path, Path]:
    """A class of `count` right submissions and its tests."""
    tests, submissions = folder / "tests", folder / "submissions"
    tests.mkdir(parents=True)
    (tests / "test_hw.py").write_text(TESTS)
    for i in range(count):
        student = submissions / f"s{i:04}"
        student.mkdir(parents=True)
        (student / "hw.py").write_text(SOLUTION)
    return tests, submissions


def make_c_class(folder: Path, count: int) -> tuple[Path, Path]:
    tests, submissions = folder / "tests", folder / "submissions"
    tests.mkdir(parents=True)
    for i in range(5):
        numbers = range(10 * (i + 1))
        (tests / f"{i}.in").write_text(" ".join(map(str, numbers)) + "\n")
        (tests / f"{i}.out").write_text(f"{sum(numbers)}\n")
    for i in range(count):
        student = submissions / f"s{i:04}"
        student.mkdir(parents=True)
        (student / "sum.c").write_text(C_SOLUTION)
    return tests, submissions


def grade(tests: Path, submissions: Path, out: Path, jobs: int) -> Measured:
    count = len(list(submissions.iterdir()))
    with measured() as m:
        run(BUILD / "src/cli/sealmark", "grade", tests, submissions, "-o", out, "-j", str(jobs))
    records = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    full = [r for r in records if r["status"] == "graded" and r["score"] == r["max_score"]]
    if len(full) != count:
        raise SystemExit(f"{len(full)} of {count} submissions got full marks: {records[:1]}")
    return m


@contextmanager
def root_folder() -> Iterator[Path]:
    """The image's files as a folder, for the rivals."""
    with tempfile.TemporaryDirectory(prefix="sealmark-bench-") as name:
        mount = Path(name)
        run(
            "mount",
            "-t",
            "erofs",
            "-o",
            "ro,loop",
            HOME / "images/default/latest/rootfs.erofs",
            mount,
        )
        copy = Path(tempfile.mkdtemp(prefix="sealmark-root-"))
        try:
            run("cp", "-a", f"{mount}/.", copy)
            yield copy
        finally:
            run("umount", mount)
            shutil.rmtree(copy, ignore_errors=True)


def plain_tests(folder: Path) -> Path:
    """One folder with tests and solution side by side, as the rivals run them."""
    both = folder / "both"
    both.mkdir()
    (both / "hw.py").write_text(SOLUTION)
    (both / "test_hw.py").write_text(TESTS)
    return both


def rival(name: str, count: int, argv: list[str]) -> Measured:
    run(*argv)  # warm
    with measured() as m:
        for _ in range(count):
            run(*argv)
    row(f"{name}, -j1", f"{m.cpu / count:.3f} CPU s, {m.wall / count:.3f} s each")
    return m


def without_hybrid_cgroup() -> list[str]:
    """crun refuses a host with cgroup v1 controllers and a v2 hierarchy: hide the latter."""
    unified = Path("/sys/fs/cgroup/unified/cgroup.controllers")
    if not unified.exists() or not unified.read_text().strip():
        return []
    return ["unshare", "--mount", "sh", "-c", f'umount {unified.parent}; exec "$@"', "sh"]


def bench_grade(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="sealmark-bench-") as name, root_folder() as root:
        folder = Path(name)
        tests, submissions = make_class(folder / "suite", count)
        grade(tests, submissions, folder / "warm", 1)
        one = grade(tests, submissions, folder / "j1", 1)
        jobs = os.cpu_count() or 1
        many = grade(tests, submissions, folder / "jn", jobs)
        row(
            "suite, -j1",
            f"{one.cpu / count:.3f} CPU s, {one.wall / count:.3f} s each",
            f"{60 * count / one.wall:.0f} submissions a minute",
        )
        row(
            f"suite, -j{jobs}",
            f"{many.cpu / count:.3f} CPU s, {many.wall / count:.3f} s each",
            f"{60 * count / many.wall:.0f} submissions a minute",
        )
        c_tests, c_submissions = make_c_class(folder / "stdio", count)
        c = grade(c_tests, c_submissions, folder / "c1", 1)
        row(
            "stdio in C (compile and 5 runs), -j1",
            f"{c.cpu / count:.3f} CPU s, {c.wall / count:.3f} s each",
            f"{60 * count / c.wall:.0f} submissions a minute",
        )
        both = plain_tests(folder)
        python = ["/usr/bin/python3", "-B", "-m", "unittest", "-q", "test_hw"]
        bwrap = [
            "bwrap",
            "--unshare-all",
            "--ro-bind",
            str(root),
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--tmpfs",
            "/tmp",
            "--bind",
            str(both),
            "/workspace",
            "--chdir",
            "/workspace",
            "--die-with-parent",
            *python,
        ]
        if shutil.which("bwrap"):
            m = rival("bubblewrap, same tests", count, bwrap)
            row("  suite / bubblewrap, CPU", f"{one.cpu / m.cpu:.2f}")
        podman = [
            *without_hybrid_cgroup(),
            "podman",
            "run",
            "--rm",
            "--network",
            "none",
            "--cgroups",
            "disabled",
            "--ulimit",
            "nofile=1024:1024",
            "--ulimit",
            "nproc=4096:4096",
            "--rootfs",
            "-v",
            f"{both}:/workspace",
            "-w",
            "/workspace",
            f"{root}",
            *python,
        ]
        if shutil.which("podman"):
            try:
                m = rival("podman run, same tests", count, podman)
                row("  suite / podman, CPU", f"{one.cpu / m.cpu:.2f}")
                row("  suite / podman, wall", f"{one.wall / m.wall:.2f}")
            except subprocess.CalledProcessError as error:
                row("podman run", "did not run here", error.stderr.strip().splitlines()[-1][:80])


def bench_scale(sizes: list[int]) -> None:
    jobs = os.cpu_count() or 1
    each = []
    with tempfile.TemporaryDirectory(prefix="sealmark-bench-") as name:
        for size in sizes:
            tests, submissions = make_class(Path(name) / f"class{size}", size)
            m = grade(tests, submissions, Path(name) / f"out{size}", jobs)
            each.append(m.cpu / size)
            row(
                f"class of {size}, -j{jobs}",
                f"{m.cpu / size:.3f} CPU s a submission",
                f"{60 * size / m.wall:.0f} a minute, {m.wall:.0f} s in all",
            )
    if len(each) > 1:
        row(
            "  largest / smallest class",
            f"{each[-1] / each[0]:.2f}",
            f"median {statistics.median(each):.3f}",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "which", nargs="*", default=["sandbox", "grade", "scale"], help="sandbox, grade, scale"
    )
    parser.add_argument("--count", type=int, default=30, help="submissions in grade")
    parser.add_argument("--sizes", default="20,200", help="class sizes in scale")
    args = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    run("ninja", "-C", BUILD, "tests/bench/bench_sandbox")
    facts()
    if "sandbox" in args.which:
        bench_sandbox()
    if "grade" in args.which:
        bench_grade(args.count)
    if "scale" in args.which:
        bench_scale([int(s) for s in args.sizes.split(",")])
    table()


if __name__ == "__main__":
    main()
