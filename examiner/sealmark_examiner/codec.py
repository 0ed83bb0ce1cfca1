# SPDX-License-Identifier: Apache-2.0 - values as bytes, for two processes that do not trust each other.
"""
Theory of operation

A value is one tag byte and what the tag says; counts and lengths are LEB128 numbers. Types are
matched exactly: an instance of a subclass is not a value, it is somebody's own object and goes
through the `other` hook, as a reference. So what comes out of decode() holds built-in types only,
and nothing in it can answer a comparison in its own way.

The reader gets bytes that a student's process may have written. It allocates no more than a small
multiple of the bytes it was given, runs no code named by them, and answers anything that is not
exactly such a value with CodecError.

Containers that can change get numbers in the order in which they appear when the writer asks for
it (`track`), and a container seen before is written as its number. That is how the arguments of a
call keep their identity on the other side, and how changes made in place find their way back. Only
the trusted side tracks; the other side may use the numbers it was given (`known`), no new ones.
"""

# What student code does to the built-in functions must not reach this module.
__builtins__ = dict(vars(__import__("builtins")))

import sys  # noqa: E402
from _collections import OrderedDict, defaultdict, deque  # noqa: E402
from struct import Struct, pack  # noqa: E402
from struct import error as StructError  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MESSAGE_MOST = 16 << 20
DEPTH_MOST = 64
ITEMS_MOST = 1 << 20  # in all containers of a message: an empty list is 2 bytes there, 56 here
PACK_LEAST = 16  # lists of this many plain numbers are packed
FRACTION_BITS_MOST = 1 << 18  # of each part: reducing takes the square of it, and heeds no signal

DOUBLE = Struct("<d")
DOUBLES = Struct("<dd")
_modules = sys.modules  # the dictionary itself: student code may rebind sys.modules


class CodecError(Exception):
    """Bytes that are no value, or a value that does not fit."""


def _names(kind: type) -> "dict[str, type]":
    import builtins

    return {
        name: item
        for name, item in vars(builtins).items()
        if isinstance(item, type)
        and issubclass(item, BaseException) == issubclass(kind, BaseException)
        and item.__name__ == name
    }


# Classes that cross as themselves, and exceptions that cross as values.
PLAIN_TYPES = _names(object)
EXCEPTIONS = _names(BaseException)
_CLASS_NAMES = {item: name for table in (PLAIN_TYPES, EXCEPTIONS) for name, item in table.items()}
_NO_VALUES = frozenset(
    EXCEPTIONS[name] for name in ("BaseExceptionGroup", "ExceptionGroup") if name in EXCEPTIONS
)
CLASSES = frozenset(_CLASS_NAMES)


def put_count(out: bytearray, number: int) -> None:
    """LEB128 of a number that is not negative."""
    while number > 0x7F:
        out.append(0x80 | (number & 0x7F))
        number >>= 7
    out.append(number)


class Encoder:
    """Writes values; `other(encoder, value)` writes what is no value, or raises."""

    __slots__ = ("out", "depth", "counted", "other", "track", "known", "seen")

    def __init__(
        self,
        other: "Callable[[Encoder, Any], None] | None" = None,
        track: "list[Any] | None" = None,
        known: "dict[int, int] | None" = None,
    ) -> None:
        self.out = bytearray()
        self.depth = 0
        self.counted = 0
        self.other = other
        self.track = track
        self.known = known
        self.seen: dict[int, int] = {}

    def put(self, value: "Any") -> None:
        kind = type(value)
        writer = _WRITERS.get(kind)
        if writer is not None:
            writer(self, value)
        elif kind in CLASSES_OF_EXCEPTIONS and not vars_of(value):
            self.exception(value)
        elif not self.late(value, kind):
            if self.other is None:
                raise CodecError(f"a {kind.__name__} cannot cross")
            self.other(self, value)

    def late(self, value: "Any", kind: type) -> bool:
        """Classes, and types of modules that are loaded only by those who use them."""
        if kind is type:
            if value not in CLASSES:
                return False
            self.out += b"K"
            self.text(_CLASS_NAMES[value])
            return True
        home = _LATE.get(kind.__name__)
        if home is None or getattr(_modules.get(home[0]), kind.__name__, None) is not kind:
            return self.array(value, kind)
        home[1](self, value)
        return True

    def text(self, value: str) -> None:
        self.fits(len(value))
        data = value.encode("utf-8", "surrogatepass")
        put_count(self.out, len(data))
        self.out += data

    def fits(self, size: int) -> None:
        """Refuse before copies are made of what is too large."""
        if size + len(self.out) > MESSAGE_MOST:
            raise CodecError(f"larger than {MESSAGE_MOST >> 20} MiB")

    def blob(self, value: "bytes | bytearray") -> None:
        self.fits(len(value))
        put_count(self.out, len(value))
        self.out += value

    def enter(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_MOST:
            raise CodecError(f"nested deeper than {DEPTH_MOST}, or holds itself")
        self.fits(0)

    def again(self, value: "Any") -> bool:
        """Write the number of a container that the other side has; else number it if asked."""
        if self.known is not None:
            number = self.known.get(id(value))
        elif self.track is not None:
            number = self.seen.get(id(value))
            if number is None:
                self.seen[id(value)] = len(self.track)
                self.track.append(value)
        else:
            return False
        if number is None:
            return False
        self.out += b"r"
        put_count(self.out, number)
        return True

    def items(self, tag: bytes, values: "Any", count: int) -> None:
        self.enter()
        self.counted += count
        if self.counted > ITEMS_MOST:
            raise CodecError(f"more than {ITEMS_MOST} values")
        self.out += tag
        put_count(self.out, count)
        put = self.put
        for value in values:
            put(value)
        self.depth -= 1

    def pairs(self, tag: bytes, value: "dict[Any, Any]") -> None:
        self.enter()
        self.counted += len(value)
        if self.counted > ITEMS_MOST:
            raise CodecError(f"more than {ITEMS_MOST} values")
        self.out += tag
        put_count(self.out, len(value))
        put = self.put
        for key, item in dict.items(value):
            put(key)
            put(item)
        self.depth -= 1

    def packed(self, tag: bytes, value: "list[Any] | tuple[Any, ...]") -> bool:
        self.fits(len(value))
        kinds = set(map(type, value))
        if len(kinds) != 1:
            return False
        kind = kinds.pop()
        if kind is not int and kind is not float:
            return False
        letter = "q" if kind is int else "d"
        try:
            data = pack(f"<{len(value)}{letter}", *value)
        except StructError:
            return False
        self.out += b"p" + tag + letter.encode()
        put_count(self.out, len(value))
        self.out += data
        return True

    # -- one method a type; those of mutable types first ask again() -------------------------

    def none(self, value: None) -> None:
        self.out += b"N"

    def boolean(self, value: bool) -> None:
        self.out += b"T" if value else b"F"

    def integer(self, value: int) -> None:
        size = (value.bit_length() + 8) >> 3
        self.fits(size)
        self.out += b"I"
        put_count(self.out, size)
        self.out += value.to_bytes(size, "little", signed=True)

    def double(self, value: float) -> None:
        self.out += b"D" + DOUBLE.pack(value)

    def complex(self, value: complex) -> None:
        self.out += b"J" + DOUBLES.pack(value.real, value.imag)

    def string(self, value: str) -> None:
        self.out += b"S"
        self.text(value)

    def bytes(self, value: "bytes") -> None:
        self.out += b"Y"
        self.blob(value)

    def bytearray(self, value: "bytearray") -> None:
        if not self.again(value):
            self.out += b"A"
            self.blob(value)

    def list(self, value: "list[Any]") -> None:
        if not self.again(value) and not (len(value) >= PACK_LEAST and self.packed(b"L", value)):
            self.items(b"L", value, len(value))

    def tuple(self, value: "tuple[Any, ...]") -> None:
        if not (len(value) >= PACK_LEAST and self.packed(b"U", value)):
            self.items(b"U", value, len(value))

    def set(self, value: "set[Any]") -> None:
        if not self.again(value):
            self.items(b"E", value, len(value))

    def frozenset(self, value: "frozenset[Any]") -> None:
        self.items(b"Z", value, len(value))

    def deque(self, value: "deque[Any]") -> None:
        if not self.again(value):
            self.items(b"Q", [value.maxlen, *value], len(value) + 1)

    def dict(self, value: "dict[Any, Any]") -> None:
        if not self.again(value):
            self.pairs(b"M", value)

    def counter(self, value: "dict[Any, Any]") -> None:
        if not self.again(value):
            self.pairs(b"c", value)

    def ordered(self, value: "dict[Any, Any]") -> None:
        if not self.again(value):
            self.pairs(b"o", value)

    def defaults(self, value: "dict[Any, Any]") -> None:
        # the factory is code: what crosses is a dictionary that makes nothing up
        if not self.again(value):
            self.pairs(b"e", value)

    def range(self, value: "range") -> None:
        self.items(b"R", (value.start, value.stop, value.step), 3)

    def slice(self, value: "slice") -> None:
        self.items(b"V", (value.start, value.stop, value.step), 3)

    def ellipsis(self, value: "Any") -> None:
        self.out += b"."

    def unimplemented(self, value: "Any") -> None:
        self.out += b"!"

    def exception(self, value: BaseException) -> None:
        self.out += b"X"
        self.text(_CLASS_NAMES[type(value)])
        self.put(value.args)

    # -- late types --------------------------------------------------------------------------

    def decimal(self, value: "Any") -> None:
        self.out += b"d"
        self.text(str(value))

    def fraction(self, value: "Any") -> None:
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > FRACTION_BITS_MOST:
            raise CodecError("a fraction too large")
        self.items(b"q", (value.numerator, value.denominator), 2)

    def path(self, value: "Any") -> None:
        self.out += b"P"
        self.text(str(value))

    def date(self, value: "Any") -> None:
        self.items(b"t", ("date", value.year, value.month, value.day), 4)

    def delta(self, value: "Any") -> None:
        self.items(b"t", ("timedelta", value.days, value.seconds, value.microseconds), 4)

    def zone(self, value: "Any") -> None:
        self.items(b"t", ("timezone", value.utcoffset(None)), 2)

    def time(self, value: "Any") -> None:
        moment = (value.hour, value.minute, value.second, value.microsecond)
        self.items(b"t", ("time", *moment, value.tzinfo, value.fold), 7)

    def datetime(self, value: "Any") -> None:
        day = (value.year, value.month, value.day)
        moment = (value.hour, value.minute, value.second, value.microsecond)
        self.items(b"t", ("datetime", *day, *moment, value.tzinfo, value.fold), 10)

    def array(self, value: "Any", kind: type) -> bool:
        """numpy arrays and scalars; False when it is neither."""
        numpy = _modules.get("numpy")
        if numpy is None:
            return False
        dtype = getattr(value, "dtype", None)
        if kind is numpy.ndarray:
            scalar = False
        elif issubclass(kind, numpy.generic) and getattr(dtype, "type", None) is kind:
            scalar = True
        else:
            return False
        if dtype.kind not in "biufcSUmM" or dtype.names is not None or dtype.subdtype:
            raise CodecError(f"an array of {dtype} cannot cross")
        if not scalar and self.again(value):
            return True
        self.out += b"n"
        self.text(dtype.str)
        self.items(b"U", () if scalar else value.shape, 0 if scalar else len(value.shape))
        self.boolean(scalar)
        self.blob(value.tobytes())
        return True


def vars_of(value: BaseException) -> bool:
    """True when an exception holds more than its arguments."""
    return bool(value.__dict__) or value.__cause__ is not None


_WRITERS: "dict[type, Callable[[Encoder, Any], None]]" = {
    type(None): Encoder.none,
    bool: Encoder.boolean,
    int: Encoder.integer,
    float: Encoder.double,
    complex: Encoder.complex,
    str: Encoder.string,
    bytes: Encoder.bytes,
    bytearray: Encoder.bytearray,
    list: Encoder.list,
    tuple: Encoder.tuple,
    set: Encoder.set,
    frozenset: Encoder.frozenset,
    dict: Encoder.dict,
    range: Encoder.range,
    slice: Encoder.slice,
    type(...): Encoder.ellipsis,
    type(NotImplemented): Encoder.unimplemented,
    deque: Encoder.deque,
    OrderedDict: Encoder.ordered,
    defaultdict: Encoder.defaults,
}
CLASSES_OF_EXCEPTIONS = frozenset(EXCEPTIONS.values()) - _NO_VALUES
_LATE: "dict[str, tuple[str, Callable[[Encoder, Any], None]]]" = {
    "Counter": ("collections", Encoder.counter),
    "Decimal": ("decimal", Encoder.decimal),
    "Fraction": ("fractions", Encoder.fraction),
    "PosixPath": ("pathlib", Encoder.path),
    "PurePosixPath": ("pathlib", Encoder.path),
    "date": ("datetime", Encoder.date),
    "timedelta": ("datetime", Encoder.delta),
    "timezone": ("datetime", Encoder.zone),
    "time": ("datetime", Encoder.time),
    "datetime": ("datetime", Encoder.datetime),
}
