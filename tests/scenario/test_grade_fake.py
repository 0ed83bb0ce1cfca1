# SPDX-License-Identifier: Apache-2.0
"""sealmark grade on the engine fake: outputs, statuses, refusals, resume after any end."""

import contextlib
import csv
import fcntl
import hashlib
import json
import os
import pty
import random
import signal
import sqlite3
import subprocess
from typing import Any

import pytest

from support import PROGRAM, ROOT, Sealmark

OK, ATTENTION, USAGE, OURS = 0, 1, 2, 3
HEADER = "student,status,score,max_score,trust,isolation,note"

# What programs do: the fake goes by the file's name, which for a single file is the student's.
SCRIPT = """
exec "*right*" echo
exec "*wrong*" stdout "3\\n"
exec "*crash*" stderr "Traceback\\nNameError: x\\n" exit 1
exec "*loop*" cpu 12000 end cpu_limit
exec "*hog*" end memory_limit
exec "*flood*" flood 2000000
exec "*sleepy*" hang
exec "*segv*" signal 11
exec "*escape*" stdout "\\x1b[2J\\xe2\\x80\\xae" exit 0
exec "*bytes*" stdout "\\xff\\0x"
"""

Folder = dict[str, str]


class Class:
    """A folder of tests, one of submissions, and the program."""

    def __init__(self, sealmark: Sealmark, script: str = SCRIPT) -> None:
        self.sealmark = sealmark
        self.base = sealmark.cwd
        self.tests = self.base / "tests"
        self.subs = self.base / "subs"
        self.out = self.base / "sealmark-results" / "hw"
        self.write_tests({"01.in": "1\n", "01.out": "1\n", "02.in": "2\n", "02.ans": "2\n"})
        self.yaml("name: hw\nrequire_isolation: none\nlimits: {cpu: 10s, wall: 2s}\n")
        self.subs.mkdir()
        (self.base / "script").write_text(script)

    def write_tests(self, files: Folder) -> None:
        self.tests.mkdir(exist_ok=True)
        for name, text in files.items():
            (self.tests / name).write_text(text)

    def yaml(self, text: str) -> None:
        self.write_tests({"assignment.yaml": text})

    def submit(self, *names: str) -> None:
        for name in names:
            (self.subs / f"{name}.py").write_text(f"# {name}\n")

    def arguments(self, *more: str) -> list[str]:
        return ["grade", "tests", "subs", "--engine", "fake", "--script", "script", *more]

    def grade(self, *more: str, env: Folder | None = None) -> subprocess.CompletedProcess[bytes]:
        return self.sealmark.run(*self.arguments(*more), env=env)

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        return self.sealmark.start(*self.arguments(*more), start_new_session=True)

    def rows(self) -> list[dict[str, str]]:
        with (self.out / "gradebook.csv").open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def records(self) -> list[dict[str, Any]]:
        lines = (self.out / "results.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def run_json(self) -> dict[str, Any]:
        return json.loads((self.out / "run.json").read_text())

    def verdicts(self) -> dict[str, list[str]]:
        """What must not depend on how the run came about."""
        return {
            r["student"]: [r["status"], str(r["score"]), r["note"]]
            + [f"{t['id']} {t['verdict']} {t['points']} {t['detail']}" for t in r["tests"]]
            for r in self.records()
        }


@pytest.fixture
def hw(sealmark: Sealmark, leftovers: None) -> Class:
    return Class(sealmark)


def test_verdicts_and_outputs(hw: Class) -> None:
    hw.submit("right", "wrong", "crash", "loop", "hog", "flood", "sleepy", "segv", "nothing")
    done = hw.grade()
    assert done.returncode == OK, done.stderr
    assert (hw.out / "gradebook.csv").read_bytes().splitlines()[0].decode() == HEADER
    verdicts = {r["student"]: {t["verdict"] for t in r["tests"]} for r in hw.records()}
    assert verdicts == {
        "right": {"passed"},
        "wrong": {"failed"},
        "crash": {"error"},
        "loop": {"cpu_limit"},
        "hog": {"memory_limit"},
        "flood": {"output_limit"},
        "sleepy": {"wall_limit"},
        "segv": {"error"},
        "nothing": {"ended_early"},
    }
    right = next(r for r in hw.rows() if r["student"] == "right")
    assert right["score"] == "2" and right["max_score"] == "2"
    assert right["trust"] == "sealed" and right["isolation"].startswith("fake")
    records = hw.records()
    assert [r["student"] for r in records] == sorted(r["student"] for r in records)
    crash = next(r for r in records if r["student"] == "crash")["tests"][0]
    assert crash["detail"] == "exit status 1: NameError: x"
    assert crash["stderr"]["head"] == "Traceback\nNameError: x\n"
    flood = next(r for r in records if r["student"] == "flood")["tests"][0]["stdout"]
    assert flood["truncated"] and flood["total_bytes"] > 1 << 20 and len(flood["head"]) == 4096
    run = hw.run_json()
    assert run["complete"] and run["submissions"]["graded"] == 9
    assert run["verdicts"]["passed"] == 2 and run["assignment"]["runner"] == "stdio"
    assert b"01.in" in done.stderr  # why this runner


def test_attention(hw: Class) -> None:
    hw.submit("right")
    (hw.subs / "empty").mkdir()
    (hw.subs / "link").symlink_to("/etc/passwd")
    (hw.subs / "packed.zip").write_bytes(b"PK")
    done = hw.grade()
    assert done.returncode == ATTENTION
    rows = {r["student"]: r for r in hw.rows()}
    assert rows["empty"]["status"] == "rejected" and rows["empty"]["score"] == ""
    assert "symbolic link" in rows["link"]["note"]
    assert "unpack it into a folder packed" in rows["packed"]["note"]
    assert rows["right"]["status"] == "graded"
    assert b"3 rejected" in done.stdout


NAMES = ['Smith, "Jr."', "李", "=HYPERLINK(1)", "-rf", "@x", "'quoted", "a_b", "a", "b", "a b"]


def test_names(hw: Class) -> None:
    """T21, T22: nobody is mixed up, nothing runs in a spreadsheet, one apostrophe leads back."""
    for name in NAMES:
        (hw.subs / name).mkdir()
        (hw.subs / name / "right.py").write_text("x")
    (hw.subs / os.fsdecode(b"\xff")).mkdir()
    (hw.subs / os.fsdecode(b"\xff") / "wrong.py").write_text("x")
    (hw.subs / "new\nline").mkdir()
    (hw.subs / "new\nline" / "right.py").write_text("x")
    assert hw.grade().returncode == OK
    cells = [r["student"] for r in hw.rows()]
    assert not any(c[0] in "=+-@\t\r" for c in cells)
    read = {c.removeprefix("'"): r for c, r in zip(cells, hw.rows(), strict=True)}
    assert set(read) == {*NAMES, "\ufffd", r"new\x0aline"}
    assert read["\ufffd"]["score"] == "0"
    assert all(read[name]["score"] == "2" for name in NAMES)


def test_hostile_output(hw: Class) -> None:
    hw.submit("escape", "bytes")
    done = hw.grade()
    assert b"\x1b" not in done.stdout + done.stderr
    records = {r["student"]: r["tests"][0] for r in hw.records()}
    assert r"\x1b[2J\u{202e}" in records["escape"]["detail"]
    assert records["bytes"]["stdout"]["encoding"] == "base64"
    assert records["bytes"]["stdout"]["head"] == "/wB4"


def test_json(hw: Class) -> None:
    hw.submit("right", "wrong")
    (hw.subs / "empty").mkdir()
    done = hw.grade("--json", "-j1")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.stderr == b"" and done.returncode == ATTENTION
    assert {r["student"] for r in lines[:-1]} == {"right", "wrong", "empty"}
    assert lines[-1]["summary"]["graded"] == 2 and lines[-1]["summary"]["complete"]
    records = hw.records()
    chain = {r.pop("hash"): r.pop("previous") for r in records}
    assert len(chain) == 3 and set(chain.values()) < {"", *chain}
    assert {(r.pop("attempt"), r.pop("recorded")[:2]) for r in records} == {(1, "20")}
    assert sorted(lines[:-1], key=lambda r: r["student"]) == records
    right = next(r for r in records if r["student"] == "right")
    digest = hashlib.sha256(b"1\n").hexdigest()
    assert right["tests"][0]["answer_digest"] == digest
    assert right["limits"]["wall_ms"] == 2000 and right["started"].endswith("Z")


def test_quiet(hw: Class) -> None:
    hw.submit("right")
    done = hw.grade("-q")
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", OK)


def test_terminal(hw: Class) -> None:
    """On a terminal there is a bar and colour; NO_COLOR and TERM=dumb are kept."""
    hw.submit("right", "wrong")

    def show(**env: str) -> bytes:
        main, side = pty.openpty()
        environment = {**hw.sealmark.environment(), "TERM": "xterm", **env}
        with subprocess.Popen(
            [str(a) for a in (PROGRAM, *hw.arguments("--fresh"))],
            cwd=hw.base,
            env=environment,
            stdin=side,
            stdout=side,
            stderr=side,
        ) as process:
            os.close(side)
            shown = b""
            with contextlib.suppress(OSError):  # the terminal is gone with its last user
                while piece := os.read(main, 65536):
                    shown += piece
            os.close(main)
            assert process.wait() == OK
        return shown

    assert b"\x1b[32m2/2" in show() and "█".encode() in show()
    assert b"\x1b[32m" not in show(NO_COLOR="1")
    assert b"\x1b[K" not in show(TERM="dumb")


REFUSALS = [
    ("require_isolation: kernel\n", ["engine fake isolates by none", "require_isolation"]),
    ("require_isolation: none\nimage: nonsuch\n", ["image nonsuch", "default"]),
    (
        "require_isolation: none\nlimits:\n  cpu: 10 parsecs\n",
        ["tests/assignment.yaml:3:8: limits.cpu", "write 10s, 500ms or 2m"],
    ),
    ("require_isolation: none\npoints: {x: 1}\n", ["assignment.yaml:2:10", "matches no test"]),
    ("require_isolation: none\nstdio: {cases: gone}\n", ["gone", "No such file"]),
    ("runner: studio\n", ["did you mean stdio?"]),
    ("limits:\n\tcpu: 1s\n", ["assignment.yaml:2:1", "indented with spaces only"]),
    ("runner: suite\n", ["tests: holds no Python tests", "runner: suite"]),
]


@pytest.mark.parametrize(("yaml", "words"), REFUSALS)
def test_refusals(hw: Class, yaml: str, words: list[str]) -> None:
    hw.submit("right")
    hw.yaml(yaml)
    done = hw.grade()
    assert done.returncode == USAGE, done.stderr
    for word in words:
        assert word in done.stderr.decode()
    assert not (hw.out / "gradebook.csv").exists()


def test_usage(hw: Class) -> None:
    hw.submit("right")
    for arguments, word in [
        (["--engine", "warp"], "warp"),
        (["-j", "0"], "-j"),
        (["-j", "1000"], "at once is too much"),
        (["--only", "nobody"], "there is no submission of nobody"),
        (["--only", "rihgt"], "there is no submission of rihgt; did you mean right?"),
        (["-o", "script"], "script: is, or is in, a file; choose another folder with -o"),
        (["-o", "script/x"], "is, or is in, a file; choose another folder with -o"),
        (["-o", "subs/results"], "choose another folder with -o"),
        (["-o", "tests"], "choose another folder with -o"),
    ]:
        done = hw.grade(*arguments)
        assert done.returncode == USAGE, (arguments, done.stderr)
        assert word in done.stderr.decode()
    assert not (hw.subs / "results").exists()
    for file in hw.tests.glob("0*"):
        file.unlink()
    assert b"holds no tests" in hw.grade().stderr


def test_tests_and_submissions_are_apart(hw: Class) -> None:
    """Submissions below the tests were taken for tests, also their .in files."""
    hw.submit("right")
    (hw.tests / "subs").mkdir()
    (hw.subs / "tests").mkdir()
    for tests, submissions, words in [
        ("tests", "tests/subs", "lie in the folder of tests"),
        ("subs/tests", "subs", "lie among the submissions"),
        ("subs", "subs/.", "holds the tests and the submissions"),
    ]:
        done = hw.sealmark.run("grade", tests, submissions)
        assert done.returncode == USAGE
        assert words in done.stderr.decode()


def test_full_disk(hw: Class) -> None:
    """What could be written says what is graded, and the same command goes on with room."""
    hw.submit(*(f"right{i}" for i in range(20)))
    out = hw.base / "small"
    out.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "none", str(out)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        done = hw.grade("-o", "small")
        assert done.returncode == OURS
        assert b"the disk is full; make room on it" in done.stderr
        subprocess.run(["mount", "-o", "remount,size=20m", str(out)], check=True)
        assert hw.grade("-o", "small").returncode == OK
        hw.out = out
        assert {r["score"] for r in hw.rows()} == {"2"} and len(hw.rows()) == 20
    finally:
        subprocess.run(["umount", "-l", str(out)], check=True)


@pytest.mark.parametrize("engine", ["auto", "uml"])
def test_no_kernel(hw: Class, engine: str) -> None:
    """What setup has not made yet is no fault of the command line: it was status 2, see --help."""
    hw.submit("right")
    done = hw.sealmark.run("grade", "tests", "subs", "--engine", engine)
    assert done.returncode == OURS
    assert b"guest kernel is not there: run: sealmark setup" in done.stderr
    assert b"--help" not in done.stderr


def test_no_machine(hw: Class) -> None:
    """A host on which no machine starts is said to be one, and nobody's score suffers."""
    hw.submit("right", "wrong", "crash", "segv", "loop")
    (hw.base / "script").write_text("boot die\n")
    done = hw.grade("-j1")
    assert done.returncode == OURS
    assert b"machines do not work here" in done.stderr
    assert [r["score"] for r in hw.rows()] == [""] * 5
    assert [r["status"] for r in hw.rows()] == ["infra"] * 3 + ["pending"] * 2
    (hw.base / "script").write_text(SCRIPT)
    assert hw.grade().returncode == OK
    assert {r["status"] for r in hw.rows()} == {"graded"}


def test_machine_dies(hw: Class) -> None:
    """T20: a machine that ends under a program each time is the program's doing."""
    hw.submit("a", "b")
    (hw.base / "script").write_text('exec "*" echo\ndie at EXEC 2\n')
    assert hw.grade().returncode == OK
    for record in hw.records():
        assert [t["verdict"] for t in record["tests"]] == ["passed", "ended_early"]
        assert record["score"] == 1 and record["usage"]["machines"] == 2


def big_class(hw: Class, count: int = 40) -> None:
    kinds = ["right", "wrong", "crash", "loop", "segv", "nothing", "hog"]
    hw.submit(*(f"{kinds[i % len(kinds)]}{i:02}" for i in range(count)))
    (hw.subs / "empty").mkdir()


def test_jobs_are_equal(hw: Class) -> None:
    big_class(hw)
    assert hw.grade("-j1", "--fresh").returncode == ATTENTION
    one = hw.verdicts()
    assert hw.grade("-j8", "--fresh").returncode == ATTENTION
    assert hw.verdicts() == one and len(one) == 41


def test_resume(hw: Class) -> None:
    """What is graded and unchanged is kept; what changed, is new or was ours is graded."""
    hw.submit("right", "wrong")
    hw.grade()
    first = {r["student"]: r for r in hw.records()}
    hw.submit("crash")
    (hw.subs / "wrong.py").write_text("# better\n")
    done = hw.grade()
    assert b"1 are graded from before; 2 to do" in done.stderr
    second = {r["student"]: r for r in hw.records()}
    assert second["right"] == first["right"]
    assert second["wrong"]["submission_digest"] != first["wrong"]["submission_digest"]
    assert b"all are graded from before" in hw.grade().stderr
    (hw.subs / "crash.py").unlink()
    hw.grade()
    assert [r["student"] for r in hw.rows()] == ["right", "wrong"]
    hw.write_tests({"01.out": "one\n"})  # other tests, another run
    hw.grade()
    assert {r["student"]: r["score"] for r in hw.rows()} == {"right": "1", "wrong": "0"}


def test_only(hw: Class) -> None:
    hw.submit("right", "wrong")
    (hw.subs / "empty").mkdir()
    done = hw.grade("--only", "right", "--json")
    assert done.returncode == OK
    record, summary = map(json.loads, done.stdout.splitlines())
    assert record["student"] == "right" and summary["summary"]["complete"]
    assert {r["student"]: r["status"] for r in hw.rows()} == {
        "empty": "rejected",
        "right": "graded",
        "wrong": "pending",
    }
    assert hw.rows()[2]["note"] == "not graded yet: run the command without --only"
    assert not hw.run_json()["complete"]
    assert hw.grade("--only", "empty").returncode == ATTENTION
    assert hw.grade().returncode == ATTENTION
    assert [r["status"] for r in hw.rows()] == ["rejected", "graded", "graded"]


def test_only_anew(hw: Class) -> None:
    """One student graded anew, and the others keep what they have: they lost it."""
    hw.submit("right", "wrong")
    hw.grade()
    done = hw.grade("--only", "wrong", "--fresh")
    assert done.returncode == OK and b"right" not in done.stdout
    assert {r["student"]: r["score"] for r in hw.rows()} == {"right": "2", "wrong": "0"}
    assert dict(count_records(hw)) == {"right": 1, "wrong": 2}


def test_passed_over(hw: Class) -> None:
    """Nothing is lost silently: a folder whose name begins with a dot was."""
    hw.submit("right")
    for name in (".smith", "__MACOSX", "right2"):
        (hw.subs / name).mkdir()
    (hw.subs / "right2/right.py").touch()
    (hw.subs / "right2/.git").mkdir()
    (hw.subs / "Thumbs.db").touch()
    os.mkfifo(hw.subs / "pipe")
    done = hw.grade()
    assert done.returncode == ATTENTION
    assert (
        b"passed over, rename what is to be graded: .smith (its name begins with a dot), "
        b"Thumbs.db (left by Windows), __MACOSX (left by macOS)\n"
        b"passed over in submissions: right2/.git (its name begins with a dot)\n"
    ) in done.stderr
    assert hw.run_json()["passed_over"] == {
        "total": 4,
        "paths": [
            {"path": ".smith", "why": "its name begins with a dot"},
            {"path": "Thumbs.db", "why": "left by Windows"},
            {"path": "__MACOSX", "why": "left by macOS"},
            {"path": "right2/.git", "why": "its name begins with a dot"},
        ],
    }
    assert {r["student"]: r["status"] for r in hw.rows()} == {
        "pipe": "rejected",
        "right": "graded",
        "right2": "graded",
    }
    summary = json.loads(hw.grade("--json").stdout.splitlines()[-1])["summary"]
    assert summary["passed_over"] == 4


def test_one_at_a_time(hw: Class) -> None:
    hw.submit("right")
    hw.grade()
    with (hw.out / ".sealmark/lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = hw.grade()
    assert done.returncode == USAGE
    assert b"another sealmark grade is at work on" in done.stderr


def interrupt(hw: Class, number: int) -> int:
    """Stop after the first record; the status."""
    with hw.start("--json", "-j2") as process:
        assert process.stdout
        while json.loads(process.stdout.readline())["status"] != "graded":
            pass
        process.send_signal(number)
        process.stdout.read()
        return process.wait(60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(hw: Class, number: int) -> None:
    big_class(hw)
    (hw.base / "script").write_text("slow 30\n" + SCRIPT)
    assert interrupt(hw, number) == 128 + number
    rows = hw.rows()
    assert len(rows) == 41  # nobody is missing from a book that somebody may take for the whole
    waiting = [r for r in rows if r["status"] == "pending"]
    assert 1 <= len(waiting) < 40
    for row in waiting:
        assert row["score"] == "" and row["note"] == "not graded yet: run the same command again"
    run = hw.run_json()
    assert not run["complete"] and run["submissions"]["waiting"] == len(waiting)
    after = hw.grade()
    assert after.returncode == ATTENTION and b"graded from before" in after.stderr
    resumed = hw.verdicts()
    assert len(resumed) == 41
    hw.grade("--fresh")
    assert hw.verdicts() == resumed


def count_records(hw: Class) -> list[tuple[str, int]]:
    with contextlib.closing(sqlite3.connect(hw.out / ".sealmark/run.db", timeout=60)) as db:
        query = "SELECT student, count(*) FROM record GROUP BY run, student"
        return list(db.execute(query))


def test_killed(hw: Class) -> None:
    """T29: killed at random moments and started again: the same end, nothing recorded twice."""
    big_class(hw)
    (hw.base / "script").write_text("slow 100\n" + SCRIPT)
    moments = random.Random(29)
    kills = 0
    while kills < 25:
        with hw.start("-q", "-j3") as process:
            try:
                assert process.wait(moments.uniform(0.005, 0.4)) == ATTENTION
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
                continue
        break
    assert kills > 2
    assert hw.grade("-j3").returncode == ATTENTION
    resumed = hw.verdicts()
    records = count_records(hw)
    assert len(records) == 41 and all(count == 1 for _, count in records)
    assert not list(hw.out.glob("*.tmp"))
    hw.grade("--fresh")
    assert hw.verdicts() == resumed


def test_example_is_whole() -> None:
    """Each case of the example has its answer, and each submission but one its file."""
    base = ROOT / "examples/c-stdio"
    assert {p.stem for p in base.glob("tests/*.in")} == {p.stem for p in base.glob("tests/*.out")}
    missing = [p.name for p in (base / "submissions").iterdir() if not (p / "sum.c").exists()]
    assert missing == ["jan"]
