# SPDX-License-Identifier: Apache-2.0 - what a call changed in the containers it was given.
__builtins__ = dict(vars(__import__("builtins")))

import sys  # noqa: E402
from _collections import deque  # noqa: E402
from operator import is_  # noqa: E402

from .codec import CodecError  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_modules = sys.modules  # the dictionary itself: student code may rebind sys.modules


def is_array(value: "Any") -> bool:
    numpy = _modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def snapshot(value: "Any") -> "Any":
    """What a container holds now, to be compared later by same()."""
    kind = type(value)
    if kind is bytearray:
        return bytes(value)
    if kind in (list, set, deque):
        return list(value)
    if isinstance(value, dict):
        return list(dict.keys(value)), list(dict.values(value))
    return (value.shape, value.tobytes()) if is_array(value) else None


def copied(value: "Any") -> "Any":
    """A shallow copy of a container, of the same type."""
    return value[:] if type(value) is list else value.copy()


def same(value: "Any", before: "Any") -> bool:
    """By identity of the elements: asking them would run code."""
    kind = type(value)
    if kind is bytearray:
        return value == before
    if kind in (list, set, deque):
        return len(value) == len(before) and all(map(is_, value, before))
    if isinstance(value, dict):
        keys, items = before
        return (
            len(value) == len(keys)
            and all(map(is_, dict.keys(value), keys))
            and all(map(is_, dict.values(value), items))
        )
    return not is_array(value) or (value.shape, value.tobytes()) == before


def assign(value: "Any", new: "Any") -> None:
    """Make `value`, which the caller holds, be as `new`, which came back."""
    if type(value) is not type(new):
        raise CodecError("an argument came back as another type")
    kind = type(value)
    if kind is list or kind is bytearray:
        value[:] = new
    elif kind is deque:
        value.clear()
        value.extend(new)
    elif kind is set or isinstance(value, dict):
        content = set(new) if kind is set else list(dict.items(new))
        value.clear()
        if kind is set:
            value |= content
        else:
            for key, item in content:
                value[key] = item
    elif is_array(value):
        if value.shape != new.shape or value.dtype != new.dtype or not value.flags.writeable:
            raise CodecError("an array came back in another shape")
        value[...] = new
    else:
        raise CodecError("an argument that cannot change came back")
