# SPDX-License-Identifier: Apache-2.0
"""T21, T22: students with hostile names and hostile output: files that are read back, a quiet
terminal."""

import csv
import json
import re
import unicodedata
from pathlib import Path

import pytest

from hostile.classroom import Graded, grade, make_submissions, make_tests
from support import Sealmark

NAMES = [
    '=HYPERLINK("http:evil","x")',
    "=cmd|' !A0",
    "+1+2",
    "-rf",
    "--fresh",
    "@sum",
    'Smith, "Jr."',
    "李",
    "a_b",
    "a",
    "b",
    "a b",
    " leading and trailing ",
    "new\nline",
    "return\rhere",
    "tab\tbed",
    "\x1b[2J\x1b[31mred\x1b]0;title\x07",
    "\x9b31m",
    "right\u202eto left",
    "<script>alert(1)</script>",
    "'; DROP TABLE records; --",
    "%s%n%x",
    "$(reboot)`reboot`",
    "*",
    "A" * 200,
    "é",  # composed ...
    "e\u0301",  # ... and not: two students
    "\u200b",
    "Z\u0351\u0344a\u030clgo",
]
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]")
OUTPUT = '\x1b[2J\x1b]0;x\x07<script>alert(1)</script>\u202e=HYPERLINK("x")\r\n\x9b31m'


@pytest.fixture(scope="module")
def graded(room: Sealmark, tmp_path_factory: pytest.TempPathFactory) -> Graded:
    folder = tmp_path_factory.mktemp("names")
    cases = {f"{n}.in": f"{n}\n" for n in range(3)} | {f"{n}.out": f"{n}\n" for n in range(3)}
    # Each is right in other cases, so that a mix-up shows.
    students = {
        name: {"main.py": f"n = int(input())\nprint(n if ({number} >> n) & 1 else {OUTPUT!r})\n"}
        for number, name in enumerate(NAMES)
    }
    limits = "limits: {cpu: 5s, wall: 20s, memory: 64M}\n"
    tests = make_tests(folder / "tests", {**cases, "assignment.yaml": limits})
    return grade(room, tests, make_submissions(folder / "class", students), folder / "out", 4)


def shown(name: str) -> str:
    """The name with everything left out that a safe text may have replaced."""
    kept = [c for c in name if unicodedata.category(c) not in ("Cc", "Cf") and c != "�"]
    return "".join(kept)


@pytest.mark.timeout(300)
def test_every_student_has_a_record_of_its_own(graded: Graded) -> None:
    assert graded.status == 0, graded.stderr
    assert len(graded.records) == len(NAMES)
    scores = {name: bin(number & 7).count("1") for number, name in enumerate(NAMES)}
    for name, score in scores.items():
        if name in graded.records:
            assert graded.records[name]["score"] == score, graded.explain(name)
    assert sum(name in graded.records for name in NAMES) >= len(NAMES) - 8


def test_gradebook_comes_back_through_csv(graded: Graded) -> None:
    rows = graded.gradebook()
    assert [*rows[0]] == "student status score max_score trust isolation note".split()
    assert len(rows) == len(NAMES)
    with (graded.out / "gradebook.csv").open(newline="", encoding="utf-8") as stream:
        assert all(len(row) == 7 for row in csv.reader(stream, strict=True))
    by_record = {name: str(record["score"]) for name, record in graded.records.items()}
    for row in rows:
        # what would be a formula is told to be text by one apostrophe
        name = row["student"]
        plain = name[1:] if name not in by_record and name.startswith("'") else name
        assert by_record.pop(plain) == row["score"], row
    assert not by_record


def test_no_cell_is_a_formula(graded: Graded) -> None:
    for row in graded.gradebook():
        for cell in row.values():
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")), row


def test_terminal_stays_neutral(graded: Graded) -> None:
    for text in (graded.stdout, graded.stderr):
        assert not CONTROLS.search(text), CONTROLS.findall(text)


def test_records_are_lines_of_json(graded: Graded) -> None:
    text = (graded.out / "results.jsonl").read_text(encoding="utf-8")
    assert text.count("\n") == len(NAMES)
    students = {json.loads(line)["student"] for line in text.splitlines()}
    # nothing that a terminal obeys when the file is looked at, nor what turns or hides text
    assert not re.search(r"[^\x0a\x20-\x7e]", text)
    assert "李" in students


def test_one_student_can_be_named(room: Sealmark, graded: Graded, tmp_path: Path) -> None:
    """Also one whose name looks like an option."""
    tests = make_tests(tmp_path / "tests", {"1.in": "", "1.out": "x\n"})
    program = {"main.py": "print('x')\n"}
    students = make_submissions(tmp_path / "class", {"--fresh": program, "a": program})
    done = room.run("grade", "--only=--fresh", "--json", "--out", tmp_path / "out", tests, students)
    assert done.returncode == 0, done
    assert json.loads(done.stdout.splitlines()[0])["student"] == "--fresh"
