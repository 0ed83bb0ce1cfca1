# SPDX-License-Identifier: Apache-2.0
"""Ways to points for a wrong answer that go through what tests do with it."""

from pathlib import Path

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
