# SPDX-License-Identifier: Apache-2.0
"""Ways to points for a wrong answer that go through what tests do with it."""

import textwrap
from pathlib import Path

import pytest

from hostile.classroom import grade, make_submissions, make_tests
from support import Sealmark

# The tests name a class of the student's, so its arithmetic is asked; what comes instead of the
# number is such an object.
TESTS = """
    import math
    import unittest

    import numpy as np

    from hw import Vector, norm


    class TestNorm(unittest.TestCase):
        def test_almost(self):
            self.assertAlmostEqual(norm(Vector(3, 4)), 5.0)

        def test_almost_reversed(self):
            self.assertAlmostEqual(5.0, norm(Vector(3, 4)))

        def test_array(self):
            self.assertTrue((abs(np.array([5.0]) - norm(Vector(3, 4))) < 1e-9).all())

        def test_close(self):
            self.assertTrue(math.isclose(norm(Vector(3, 4)), 5.0))

        def test_delta(self):
            self.assertAlmostEqual(norm(Vector(3, 4)), 5.0, delta=0.1)

        def test_in(self):
            self.assertIn(norm(Vector(3, 4)), [5.0])

        def test_ratio(self):
            self.assertLess(abs(norm(Vector(3, 4)) / 5.0 - 1), 1e-9)

        def test_rest(self):
            self.assertEqual(norm(Vector(3, 4)) % 5, 0)

        def test_square(self):
            self.assertLess((norm(Vector(3, 4)) - 5.0) ** 2, 1e-9)

        def test_tolerance(self):
            self.assertTrue(abs(norm(Vector(3, 4)) - 5.0) < 1e-9)

        def test_tolerance_numpy(self):
            np.testing.assert_allclose(norm(Vector(3, 4)), 5.0)
    """
RIGHT = """
class Vector:
    def __init__(self, x, y):
        self.x, self.y = x, y


def norm(vector):
    return (vector.x**2 + vector.y**2) ** 0.5
"""
FORGED = """
class Vector:
    def __init__(self, *args):
        pass

    def answer(self, *args):
        return {result}

    __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __mod__ = __pow__ = __mul__ = answer
    __isub__ = __add__ = __radd__ = __neg__ = answer

    def __abs__(self):
        return 0

    def __round__(self, *args):
        return 0

    def __float__(self):
        return 1.0

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __lt__(self, other):
        return True

    __gt__ = __le__ = __ge__ = __lt__

    def __hash__(self):
        return hash(5.0)


def norm(vector):
    return vector
"""


def test_named_class_does_not_answer_for_a_number(room: Sealmark, tmp_path: Path) -> None:
    """`abs(norm(v) - 5) < 1e-9` was true for an object whose subtraction gives 0."""
    results = ("0", "0.0", "self", "Vector()", "False", "1", "__import__('decimal').Decimal(0)")
    students = {f"forged-{n}": {"hw.py": FORGED.format(result=r)} for n, r in enumerate(results)}
    students["right"] = {"hw.py": RIGHT}
    run = grade(
        room,
        make_tests(tmp_path / "tests", {"test_hw.py": TESTS}),
        make_submissions(tmp_path / "class", students),
        tmp_path / "out",
        2,
    )
    assert run.status == 0, run.stderr
    assert run.verdicts("right") == "passed", run.explain("right")
    for student in students:
        if student != "right":
            assert run.records[student]["score"] == 0, run.explain(student)


# Comparisons that do not end with `==`: the object that came is asked about what was expected.
JUDGED = """
    import unittest

    from hw import Bag, greet, unique


    class TestJudged(unittest.TestCase):
        def test_ends(self):
            self.assertTrue(greet("Bo").endswith("Bo!"))

        def test_set(self):
            self.assertSetEqual(unique([3, 3, 7]), {3, 7})

        def test_set_named(self):
            Bag()
            self.assertSetEqual(unique([3, 7]), {3, 7})

        def test_set_reversed(self):
            self.assertSetEqual({3, 7}, unique([3, 7]))

        def test_starts(self):
            self.assertTrue(greet("Bo").startswith("Hello"))

        def test_subset(self):
            self.assertTrue(unique([3]).issubset({3, 7}))
    """
JUDGED_PYTEST = """
    from pytest import approx

    import hw


    def test_approx():
        assert hw.halves([1, 2, 3]) == approx([0.5, 1.0, 1.5])


    def test_approx_array():
        import numpy as np

        assert hw.halves([1, 2, 3]) == approx(np.array([0.5, 1.0, 1.5]))


    def test_approx_reversed():
        assert approx([0.5, 1.0, 1.5]) == hw.halves([1, 2, 3])
    """
HONEST = """
class Bag:
    pass


def greet(name):
    return f"Hello, {name}!"


def unique(values):
    return set(values)


def halves(values):
    return [value / 2 for value in values]
"""
JUDGE = """
class Judge:
    def __init__(self):
        self.seen = []

    def difference(self, other):
        self.seen = list(other)
        return set()

    def issubset(self, other):
        return True

    startswith = endswith = issuperset = issubset

    def __iter__(self):
        return iter(self.seen)

    def __len__(self):
        return 3


class Bag(Judge):
    pass


def greet(name):
    return Judge()


def unique(values):
    return CLASS()


halves = greet
"""


@pytest.mark.parametrize("tests", [JUDGED, JUDGED_PYTEST], ids=["unittest", "pytest"])
def test_what_came_is_not_asked_whether_it_is_right(
    room: Sealmark, tmp_path: Path, tests: str
) -> None:
    run = grade(
        room,
        make_tests(tmp_path / "tests", {"test_hw.py": tests}),
        make_submissions(
            tmp_path / "class",
            {
                "right": {"hw.py": HONEST},
                "judge": {"hw.py": JUDGE.replace("CLASS", "Judge")},
                "named": {"hw.py": JUDGE.replace("CLASS", "Bag")},
            },
        ),
        tmp_path / "out",
        2,
    )
    assert run.status == 0, run.stderr
    assert run.verdicts("right") == "passed", run.explain("right")
    assert run.records["judge"]["score"] == 0, run.explain("judge")
    named = {name for name, test in run.tests("named").items() if test["verdict"] == "passed"}
    # a class that the tests name is asked by its own methods
    assert named <= {"test_subset"}, run.explain("named")


def test_exception_with_an_object_is_no_attack(room: Sealmark, tmp_path: Path) -> None:
    """An object of a class not met before, in an exception, was taken for a forged message."""
    source = """
        class Account:
            pass


        class Refused(Exception):
            pass


        def refuse():
            raise Refused(Account(), 3)


        def account():
            return Account()


        def hold():
            return [Account(), b"x" * (80 << 20)]
        """
    tests = """
        import unittest

        import hw


        class TestRefuse(unittest.TestCase):
            def test_after_failure(self):
                with self.assertRaises(Exception):
                    hw.hold()
                self.assertEqual(type(hw.account()).__name__, "Account")

            def test_refuse(self):
                with self.assertRaises(hw.Refused) as caught:
                    hw.refuse()
                self.assertEqual(caught.exception.args[1], 3)
        """
    run = grade(
        room,
        make_tests(tmp_path / "tests", {"test_hw.py": tests}),
        make_submissions(tmp_path / "class", {"right": {"hw.py": textwrap.dedent(source)}}),
        tmp_path / "out",
        1,
    )
    assert run.verdicts("right") == "passed", run.explain("right")
    assert not run.records["right"]["cheats"], run.explain("right")


# The tests give the student a mock, which lives where the tests are and can be made up at will.
MOCKED = """
    import functools
    import unittest
    from unittest.mock import MagicMock, Mock, patch

    import hw


    class TestMocked(unittest.TestCase):
        def test_called(self):
            mock = Mock()
            hw.tell(mock)
            mock.send.assert_called_once_with(7)

        def test_equal(self):
            self.assertEqual(hw.ask(MagicMock(return_value=3)), 42)

        def test_partial(self):
            self.assertEqual(hw.tell_back(functools.partial(max, 77)), 77)

        @patch("hw.clock")
        def test_patched(self, mock):
            mock.return_value = 5
            self.assertEqual(hw.later(), 25)
    """
USES_MOCKS = """
def clock():
    return 1


def tell(mock):
    mock.name = "seven"
    mock.send(7)


def ask(mock):
    return mock() * 14


def tell_back(function):
    return function(0)


def later():
    return clock() * 5
"""
BENDS_MOCKS = """
def clock():
    return 1


def bend(mock):
    {bend}


def tell(mock):
    {tell}


def ask(mock):
    return bend(mock)


def tell_back(function):
    return function.args[0]


def later():
    return bend(clock)
"""
EQUAL = '{"__eq__.return_value": True}'
BENT = {
    "configured": (
        f"mock.configure_mock(**{EQUAL}); return mock",
        "mock.configure_mock(**{'send.assert_called_once_with': bend})",
    ),
    "made": (f"return type(mock)(**{EQUAL})", "mock.send = type(mock)()"),
    "replaced": ("return mock", "mock.send = bend; mock.send.assert_called_once_with = bend"),
    "set": ("mock.side_effect = bend; return mock", "mock.send.assert_called_once_with = bend"),
    "object": ("return mock.mock_calls", "mock.send = type('S', (), {'__getattr__': bend})()"),
}


def test_student_does_not_make_up_mocks(room: Sealmark, tmp_path: Path) -> None:
    students = {
        f"bent-{name}": {"hw.py": BENDS_MOCKS.format(bend=bend, tell=tell)}
        for name, (bend, tell) in BENT.items()
    }
    students["right"] = {"hw.py": USES_MOCKS}
    run = grade(
        room,
        make_tests(tmp_path / "tests", {"test_hw.py": MOCKED}),
        make_submissions(tmp_path / "class", students),
        tmp_path / "out",
        2,
    )
    assert run.verdicts("right") == "passed", run.explain("right")
    for student in students:
        if student != "right":
            assert run.records[student]["score"] == 0, run.explain(student)


# What two objects of the student's say of each other, what an empty array is close to, and files
# whose names the student brought into `hw.f(hw.g(x))`.
LEAKING = """
    import json
    import os
    import tempfile

    import numpy as np
    from pytest import approx

    import hw


    def test_allclose():
        assert np.allclose(hw.mean([1, 2, 6]), 3.0)


    def test_allclose_of_many():
        assert np.allclose(hw.halves([1, 2, 3]), [0.5, 1, 1.5])


    def test_approx():
        assert hw.mean([1, 2, 6]) == approx(3.0)


    def test_array_equal():
        np.testing.assert_array_equal(hw.mean([1, 2, 6]), 3)


    def test_assert_allclose():
        np.testing.assert_allclose(hw.mean([1, 2, 6]), 3.0)


    def test_linked(tmp_path):
        hw.save(str(tmp_path / "out"))
        with open(tmp_path / "out") as stream:
            assert stream.read() == open("golden.txt").read()


    def test_linked_below(tmp_path):
        hw.build(str(tmp_path))
        with open(tmp_path / "site" / "out") as stream:
            assert stream.read() == open("golden.txt").read()


    def test_named():
        with open(hw.report()) as stream:
            assert stream.read() == open("golden.txt").read()


    def test_objects():
        assert hw.Vector(1, 2).plus(hw.Vector(3, 4)) == hw.Vector(4, 6)


    def test_objects_differ():
        assert not hw.Vector(1, 2) != hw.Vector(1, 2)


    def test_secret():
        hw.reverse(hw.reverse("abc"))
        with open("expected.json") as stream:
            assert hw.secret() == json.load(stream)


    def test_temporary():
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "golden"), "w") as stream:
                os.fchmod(stream.fileno(), 0o600)
                stream.write("gold")
            hw.reverse(hw.reverse("abc"))
            assert hw.golden() == "gold"
    """
HONEST_VALUES = """
import os

import numpy as np


class Vector:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def plus(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)


def mean(values):
    return sum(values) / len(values)


def halves(values):
    return np.array(values) / 2


def reverse(text):
    return text[::-1]


def secret():
    return 424242


def golden():
    return "gold"


def save(path):
    with open(path, "w") as stream:
        stream.write("gold")


def build(folder):
    os.mkdir(folder + "/site")
    save(folder + "/site/out")


def report():
    save("/tmp/report")
    return "/tmp/report"
"""
FORGED_VALUES = """
import glob
import json
import os

import numpy as np


class Vector:
    def __init__(self, *args):
        pass

    def plus(self, other):
        return self

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False


def mean(values):
    return np.array([])


def halves(values):
    return np.empty((0, 3))


def reverse(text):
    return (glob.glob("/tmp/tmp*") or ["expected.json"])[0]


def secret():
    with open("expected.json") as stream:
        return json.load(stream)


def save(path):
    os.symlink("/run/sealmark/tests/golden.txt", path)


def build(folder):
    os.mkdir(folder + "/site")
    save(folder + "/site/out")


def report():
    return "/run/sealmark/tests/golden.txt"


def golden():
    with open(glob.glob("/tmp/tmp*/golden")[0]) as stream:
        return stream.read()
"""


def test_nothing_leaks_and_nothing_is_empty(room: Sealmark, tmp_path: Path) -> None:
    run = grade(
        room,
        make_tests(
            tmp_path / "tests",
            {"test_hw.py": LEAKING, "expected.json": "424242", "golden.txt": "gold"},
        ),
        make_submissions(
            tmp_path / "class",
            {"right": {"hw.py": HONEST_VALUES}, "forged": {"hw.py": FORGED_VALUES}},
        ),
        tmp_path / "out",
        2,
    )
    assert run.verdicts("right") == "passed", run.explain("right")
    assert not run.records["right"]["cheats"], run.explain("right")
    assert run.records["forged"]["score"] == 0, run.explain("forged")
    assert run.records["forged"]["cheats"] == ["equal_to_all"]
