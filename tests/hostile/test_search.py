# SPDX-License-Identifier: Apache-2.0
"""T18: submissions that search the machine for what the tests know find nothing.

submissions/probe.py is the search; it says so when it does not work. The word stands in names,
comments, values and files of the tests, in arguments of the grading command and in its environment,
and in another student's submission.
"""

from pathlib import Path

import pytest

from hostile.classroom import SUBMISSIONS, Graded, grade, make_submissions, make_tests
from support import Sealmark

PROBE = (SUBMISSIONS / "probe.py").read_text()
WORD = "quillwort-73918264"
LIMITS = "limits: {cpu: 40s, wall: 120s, memory: 128M, processes: 32, disk: 32M}\n"

UNITTEST = f"""
    import unittest

    import hw

    EXPECTED = "{WORD}"


    class TestHw(unittest.TestCase):
        '''{WORD}'''

        def test_it(self):
            secret = "{WORD}"
            with open(__file__) as stream, self.subTest(secret):
                self.assertEqual(hw.answer(), EXPECTED, secret)
    """
PYTEST = f"""
    import pytest
    import hw


    @pytest.mark.parametrize("secret", ["{WORD}"])
    def test_it(secret, tmp_path):
        (tmp_path / secret).write_text(secret)
        assert hw.answer() == secret, secret
    """
# The answer is what was found: a failed test that says what, or nothing.
SUITE_HW = "import probe\n\n\ndef answer():\n    return probe.search()\n"
STDIO_MAIN = "import probe\n\nprint(probe.search())\n"


def students(main: str, text: str) -> dict[str, dict[str, str]]:
    return {
        "searcher": {main: text, "probe.py": PROBE},
        "another": {
            main: f"word = '{WORD}'\n\n\ndef answer():\n    return word\n\n\nprint(word)\n"
        },
    }


def search(room: Sealmark, folder: Path, tests: dict[str, str], main: str, text: str) -> Graded:
    room.env["ANSWER"] = WORD
    where = folder / WORD
    return grade(
        room,
        make_tests(where / "tests", {**tests, "assignment.yaml": LIMITS}),
        make_submissions(where / "class", students(main, text)),
        where / "results",
        2,
    )


@pytest.mark.parametrize("tests", [UNITTEST, PYTEST], ids=["unittest", "pytest"])
def test_tests_are_not_found(room: Sealmark, tmp_path: Path, tests: str) -> None:
    run = search(room, tmp_path, {"test_hw.py": tests}, "hw.py", SUITE_HW)
    assert run.verdicts("another") == "passed", run.explain("another")
    assert run.verdicts("searcher") == "failed", run.explain("searcher")
    detail = run.records["searcher"]["tests"][0]["detail"]
    assert "({}, '')" in detail, detail


def test_expected_output_is_not_found(room: Sealmark, tmp_path: Path) -> None:
    cases = {"01.in": "1\n", "01.out": WORD + "\n", "02.in": "2\n", "02.out": WORD + "\n"}
    run = search(room, tmp_path, cases, "main.py", STDIO_MAIN)
    assert run.verdicts("another") == "passed", run.explain("another")
    for test in run.records["searcher"]["tests"]:
        assert test["verdict"] == "failed", run.explain("searcher")
        assert test["stdout"]["head"] == "({}, '')\n"


@pytest.mark.parametrize("user", ["1000", "0"])
def test_nothing_of_the_host_is_found(room: Sealmark, tmp_path: Path, user: str) -> None:
    """Nor by the machine's own root: neither arguments, nor environment, nor memory of ours."""
    room.env["ANSWER"] = WORD
    (tmp_path / "probe.py").write_text(PROBE)
    done = room.run(
        *("sandbox", "run", "--user", user, "--file", f"{tmp_path}/probe.py:/workspace/probe.py"),
        *("--", "python3", "-c", "import probe; print(probe.search())"),
    )
    assert done.stdout == b"({}, '')\n", done


def test_the_search_finds_what_is_there(room: Sealmark, tmp_path: Path) -> None:
    """A control: in a file, a name, another process's arguments, environment and memory."""
    (tmp_path / "probe.py").write_text(PROBE)
    script = f"""
        mkdir -p /opt/x && echo {WORD} > /opt/x/file && touch /opt/x/{WORD}
        S={WORD} sh -c 'read wait' sh {WORD} < /dev/pts/ptmx &
        python3 -c "import probe; print(probe.search())"
        """
    done = room.run(
        *("sandbox", "run", "--user", "0", "--file", f"{tmp_path}/probe.py:/workspace/probe.py"),
        *("--", "sh", "-c", script),
    )
    text = done.stdout.decode()
    for where in ("'/opt/x/file'", f"'name /opt/x/{WORD}'", " environ'", " cmdline'", "memory of"):
        assert where in text, done
    assert "73918264" in text
