# SPDX-License-Identifier: Apache-2.0 - what numpy would say of empty arrays.
"""
numpy finds an empty array close to whatever it is compared with, as there is no element that
differs. A student who returns one would pass each test that ends with allclose() or one of
numpy.testing's functions; here the two are different as soon as only one of them is empty. (What
`(a == b).all()` says of an empty array is beyond our reach.)
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_guarded: set[str] = set()


def guard() -> None:
    """Where it is loaded; called again and again, as a test may be the first to load it."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" not in _guarded and hasattr(numpy, "allclose"):
        _guarded.add("numpy")
        _guard_allclose(numpy)
    testing = sys.modules.get("numpy.testing._private.utils")
    if testing is not None and "testing" not in _guarded:
        if hasattr(testing, "assert_array_compare"):
            _guarded.add("testing")
            _guard_testing(testing)


def is_hollow(first: Any, second: Any) -> bool:
    """One of two operands is empty, and the other is not."""
    numpy = sys.modules.get("numpy")
    size = getattr(numpy, "size", None)
    if size is None or not any(isinstance(each, numpy.ndarray) for each in (first, second)):
        return False
    try:
        return (size(first) == 0) != (size(second) == 0)
    except Exception:  # noqa: BLE001 - nothing that numpy counts
        return False


def _guard_allclose(numpy: Any) -> None:
    """By the function that it looks up: the tests may hold allclose() itself already."""
    space = getattr(numpy.allclose, "__wrapped__", numpy.allclose).__globals__
    inner = space["isclose"]

    def isclose(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
        if is_hollow(a, b):
            return numpy.asarray(False)
        return inner(a, b, *args, **kwargs)

    space["isclose"] = isclose


def _guard_testing(testing: Any) -> None:
    inner = testing.assert_array_compare

    def compare(comparison: Any, x: Any, y: Any, *args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        if is_hollow(x, y):
            raise AssertionError("one of the two arrays is empty")
        inner(comparison, x, y, *args, **kwargs)

    testing.assert_array_compare = compare
