# SPDX-License-Identifier: Apache-2.0
"""Classes of attacking submissions, graded as a whole: machines are few, looks at the result many.

A class is a folder of submissions: NAME.py or NAME.c is one student with one file, a folder is one
with several. Honest neighbours sit between the attackers, right ones and wrong ones in turn. It is
graded twice at the same time, with one machine at once on one CPU and with eight on the others, and
what each test asks of it has to hold for both.
"""

import csv
import json
import os
import shutil
import subprocess
import textwrap
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import PROGRAM, Sealmark

SUBMISSIONS = Path(__file__).parent / "submissions"
JOBS = (1, 8)
ATTACKERS_BETWEEN_NEIGHBOURS = 5
# Ends the names of files that would attack our own tools where they lie: a conftest.py that leaves
# at once ended our test run, with status 0 and without a test.
DISGUISE = ".hostile"


@dataclass
class Graded:
    """What one `sealmark grade` gave, and what it took of this host."""

    status: int
    stdout: str
    stderr: str
    records: dict[str, dict[str, Any]]
    out: Path
    seconds: float
    peak_kib: dict[str, int]

    def tests(self, student: str) -> dict[str, dict[str, Any]]:
        """The student's tests by the last part of their ids."""
        return {
            test["id"].rpartition("::")[2].rpartition(".")[2]: test
            for test in self.records[student]["tests"]
        }

    def verdicts(self, student: str) -> str:
        """In the order of the tests; one word when all are alike."""
        words = [test["verdict"] for test in self.records[student]["tests"]]
        return words[0] if len(set(words)) == 1 else " ".join(words)

    def explain(self, student: str) -> str:
        """For the message of a failed assertion."""
        record = self.records[student]
        lines = [f"{student}: {record['status']} {record['note']} {record['cheats']}"]
        for test in record["tests"]:
            lines.append(
                f"  {test['id']}: {test['verdict']} cpu {test['cpu_ms']} wall {test['wall_ms']}"
                f" {test['detail']!r} {test['stderr']['head'][-300:]!r}"
            )
        return "\n".join(lines)

    def gradebook(self) -> list[dict[str, str]]:
        with (self.out / "gradebook.csv").open(newline="", encoding="utf-8") as stream:
            return list(csv.DictReader(stream))


class Watch(threading.Thread):
    """Samples the peaks of the memory of a process and of the monitors below it."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.root = pid
        self.over = threading.Event()
        self.peaks: dict[str, int] = {}

    def run(self) -> None:
        while not self.over.wait(0.1):
            for pid in self.family():
                self.sample(pid)

    def family(self) -> list[int]:
        found = todo = [self.root]
        while todo:
            below: list[int] = []
            for pid in todo:
                try:
                    tasks = list(Path(f"/proc/{pid}/task").iterdir())
                    for task in tasks:
                        below += map(int, (task / "children").read_text().split())
                except OSError:
                    continue
            found = found + below
            todo = below
        return found

    def sample(self, pid: int) -> None:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            return
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        name = status.get("Name", "?").strip()
        peak = int(status.get("VmHWM", "0 kB").split()[0])
        self.peaks[name] = max(self.peaks.get(name, 0), peak)


def make_class(
    folder: Path,
    source: Path,
    right: str,
    wrong: str,
    wanted: str = "",
    only: Collection[str] | None = None,
) -> None:
    """Lay out the submissions of `source`; `wanted` renames files, such as hw.py."""
    folder.mkdir()
    attackers = 0
    for entry in sorted(source.iterdir()):
        if only is not None and entry.stem not in only:
            continue
        student = folder / entry.stem
        if entry.is_dir():
            shutil.copytree(entry, student)
            for path in student.rglob(f"*{DISGUISE}"):
                path.rename(path.with_name(path.name.removesuffix(DISGUISE)))
        else:
            student.mkdir()
            shutil.copy(entry, student / (wanted or f"main{entry.suffix}"))
        if attackers % ATTACKERS_BETWEEN_NEIGHBOURS == 0:
            kind, text = ("wrong", wrong) if attackers // 5 % 2 else ("right", right)
            neighbour = folder / f"{entry.stem}-neighbour-{kind}"
            neighbour.mkdir()
            (neighbour / (wanted or "main.py")).write_text(text)
        attackers += 1


def make_tests(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
    return folder


def make_submissions(folder: Path, students: Mapping[str, Mapping[str, str | bytes]]) -> Path:
    folder.mkdir(parents=True)
    for student, files in students.items():
        make_tests(folder / student, files)
    return folder


def start(sealmark: Sealmark, *args: str | Path, cpus: set[int] | None) -> subprocess.Popen[bytes]:
    prefix = ["taskset", "-c", ",".join(map(str, sorted(cpus)))] if cpus else []
    return subprocess.Popen(
        [*prefix, PROGRAM, *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=sealmark.cwd,
        env=sealmark.environment(),
    )


def grade(
    sealmark: Sealmark,
    tests: Path,
    submissions: Path,
    out: Path,
    jobs: int,
    cpus: set[int] | None = None,
    timeout: float = 900,
) -> Graded:
    began = time.monotonic()
    args = ("grade", "--jobs", str(jobs), "--out", out, tests, submissions)
    process = start(sealmark, *args, cpus=cpus)
    watch = Watch(process.pid)
    watch.start()
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    finally:
        process.kill()
        process.wait()
        watch.over.set()
        watch.join()
    records: dict[str, dict[str, Any]] = {}
    if (out / "results.jsonl").exists():
        for line in (out / "results.jsonl").read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            records[record["student"]] = record
    return Graded(
        process.returncode,
        stdout.decode("utf-8", "replace"),
        stderr.decode("utf-8", "replace"),
        records,
        out,
        time.monotonic() - began,
        watch.peaks,
    )


def grade_both(sealmark: Sealmark, tests: Path, submissions: Path, out: Path) -> dict[int, Graded]:
    """With one machine at once and with eight; side by side where there is a CPU for each."""
    cpus = sorted(os.sched_getaffinity(0))
    shares = {1: {cpus[0]}, 8: set(cpus[1:])} if len(cpus) > 1 else {}
    results: dict[int, Graded] = {}

    def one(jobs: int) -> None:
        results[jobs] = grade(
            sealmark, tests, submissions, out / f"jobs-{jobs}", jobs, shares.get(jobs)
        )

    threads = [threading.Thread(target=one, args=(jobs,)) for jobs in JOBS]
    for thread in threads:
        thread.start()
        if not shares:
            thread.join()
    for thread in threads:
        thread.join()
    return results
