# SPDX-License-Identifier: Apache-2.0 - what test frameworks would ask an object of the student's.
"""
Some comparisons of the frameworks do not end with `==` of two values: assertSetEqual() asks the
one that came for its difference from the one expected, and approx() compares as many elements as
the one that came gives. An object of the student's answers both as it likes. It equals no plain
value, so it is found unequal here before it is asked.
"""

from __future__ import annotations

from . import arrays, standin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _is_alone(first: Any, second: Any) -> bool:
    """One of the two is an object of the student's, and the other is none."""
    refs = [standin.reference_of(each) for each in (first, second)]
    for each, ref in zip((first, second), refs, strict=True):
        if ref is not None and (None in refs) and isinstance(each, standin.StandIn):
            ref.peer.compared(type(each))
    return None in refs and refs != [None, None]


def guard_unittest() -> None:
    import unittest  # here: who loads it first decides what it loads of its own

    inner = unittest.TestCase.assertSetEqual

    def assert_set_equal(self: Any, first: Any, second: Any, msg: Any = None) -> None:
        if _is_alone(first, second):
            self.fail(self._formatMessage(msg, f"{first!r} != {second!r}"))
        inner(self, first, second, msg)

    unittest.TestCase.assertSetEqual = assert_set_equal  # type: ignore[method-assign]


def guard_pytest() -> None:
    from _pytest import python_api

    for cls in vars(python_api).values():
        if isinstance(cls, type) and issubclass(cls, python_api.ApproxBase):
            if "__eq__" in vars(cls):
                _guard_approx(cls, vars(cls)["__eq__"])


def _guard_approx(cls: Any, inner: Callable[[Any, Any], bool]) -> None:
    def equal(self: Any, actual: Any) -> bool:
        if _is_alone(actual, None) or arrays.is_hollow(actual, self.expected):
            return False
        return inner(self, actual)

    cls.__eq__ = equal
