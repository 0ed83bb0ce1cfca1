# SPDX-License-Identifier: Apache-2.0 - the reader of codec.py's values: its bytes are hostile.
__builtins__ = dict(vars(__import__("builtins")))

from _collections import OrderedDict, defaultdict, deque  # noqa: E402
from struct import unpack_from  # noqa: E402

from .codec import (  # noqa: E402
    CLASSES_OF_EXCEPTIONS,
    DEPTH_MOST,
    DOUBLE,
    DOUBLES,
    EXCEPTIONS,
    FRACTION_BITS_MOST,
    ITEMS_MOST,
    PLAIN_TYPES,
    CodecError,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Decoder:
    """Reads one value from hostile bytes; `other(decoder, number)` resolves references."""

    __slots__ = ("data", "at", "end", "depth", "items", "other", "track", "known", "heard")

    def __init__(
        self,
        data: bytes,
        other: "Callable[[Any], Any] | None" = None,
        track: "list[Any] | None" = None,
        known: "list[Any] | None" = None,
        heard: "Callable[[str], None] | None" = None,
    ) -> None:
        self.data = data
        self.at = 0
        self.end = len(data)
        self.depth = 0
        self.items = 0
        self.other = other
        self.track = track  # number the containers found (what the trusted side sends)
        self.known = known  # containers whose numbers may be used
        self.heard = heard  # told of each text

    def whole(self) -> "Any":
        value = self.get()
        if self.at != self.end:
            raise CodecError("bytes after the value")
        return value

    def count(self) -> int:
        number = shift = 0
        data = self.data
        while True:
            if self.at >= self.end or shift > 28:
                raise CodecError("a count is cut or too large")
            byte = data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def take(self, size: int) -> bytes:
        start = self.at
        if size > self.end - start:
            raise CodecError("a value is cut")
        self.at = start + size
        return self.data[start : start + size]

    def text(self) -> str:
        try:
            text = self.take(self.count()).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise CodecError("a string is not UTF-8") from None
        if self.heard is not None:
            self.heard(text)
        return text

    def length(self) -> int:
        """How many elements follow: each takes a byte at least."""
        count = self.count()
        if count > self.end - self.at:
            raise CodecError("a container says it holds more than there is")
        self.items += count
        if self.items > ITEMS_MOST:
            raise CodecError(f"more than {ITEMS_MOST} values")
        return count

    def get(self) -> "Any":
        if self.at >= self.end:
            raise CodecError("a value is missing")
        tag = self.data[self.at]
        self.at += 1
        reader = _READERS.get(tag)
        if reader is None:
            raise CodecError(f"unknown tag {tag}")
        self.depth += 1
        if self.depth > 2 * DEPTH_MOST:
            raise CodecError("nested too deep")
        value = reader(self)
        self.depth -= 1
        return value

    def found(self, value: "Any") -> "Any":
        if self.track is not None:
            self.track.append(value)
        return value

    # -- one method a tag --------------------------------------------------------------------

    def integer(self) -> int:
        return int.from_bytes(self.take(self.count()), "little", signed=True)

    def double(self) -> float:
        return DOUBLE.unpack(self.take(8))[0]

    def complex(self) -> complex:
        return complex(*DOUBLES.unpack(self.take(16)))

    def bytes(self) -> "bytes":
        return self.take(self.count())

    def bytearray(self) -> "bytearray":
        return self.found(bytearray(self.take(self.count())))

    def fill(self, value: "Any", add: "Callable[[Any], Any]") -> "Any":
        get = self.get
        try:
            for _ in range(self.length()):
                add(get())
        except TypeError:
            raise CodecError("an element that has no hash") from None
        return value

    def list(self) -> "list[Any]":
        value: list[Any] = self.found([])
        return self.fill(value, value.append)

    def tuple(self) -> "tuple[Any, ...]":
        return tuple([self.get() for _ in range(self.length())])

    def set(self) -> "set[Any]":
        value: set[Any] = self.found(set())
        return self.fill(value, value.add)

    def frozenset(self) -> "frozenset[Any]":
        value: set[Any] = set()
        return frozenset(self.fill(value, value.add))

    def deque(self) -> "deque[Any]":
        slot = len(self.track) if self.track is not None else -1
        self.found(None)
        count = self.length()
        most = self.get() if count else self.bad("a deque")
        if most is not None and (type(most) is not int or not count - 1 <= most < 1 << 62):
            raise CodecError("a deque longer than it may be")
        value = deque([self.get() for _ in range(count - 1)], most)
        if self.track is not None:
            self.track[slot] = value
        return value

    def pairs(self, value: "dict[Any, Any]") -> "dict[Any, Any]":
        self.found(value)
        get = self.get
        try:
            for _ in range(self.length()):
                key = get()
                value[key] = get()
        except TypeError:
            raise CodecError("a key that has no hash") from None
        return value

    def dict(self) -> "dict[Any, Any]":
        return self.pairs({})

    def counter(self) -> "dict[Any, Any]":
        from collections import Counter

        return self.pairs(Counter())

    def ordered(self) -> "dict[Any, Any]":
        return self.pairs(OrderedDict())

    def defaults(self) -> "dict[Any, Any]":
        return self.pairs(defaultdict(None))

    def packed(self) -> "Any":
        tag, letter = self.take(1), self.take(1)
        if letter not in (b"q", b"d") or tag not in (b"L", b"U"):
            raise CodecError("packed what?")
        count = self.count()
        if count * 8 > self.end - self.at:
            raise CodecError("packed numbers are cut")
        numbers = unpack_from(f"<{count}{letter.decode()}", self.data, self.at)
        self.at += count * 8
        return numbers if tag == b"U" else self.found(list(numbers))

    def triple(self) -> "tuple[Any, Any, Any]":
        if self.count() != 3:
            raise CodecError("three parts wanted")
        return self.get(), self.get(), self.get()

    def range(self) -> "range":
        parts = self.triple()
        if not all(type(part) is int for part in parts) or parts[2] == 0:
            raise CodecError("a range of no integers")
        return range(*parts)

    def slice(self) -> "slice":
        return slice(*self.triple())

    def known_one(self) -> "Any":
        table = self.track if self.track is not None else self.known
        number = self.count()
        if table is None or number >= len(table):
            raise CodecError("a number of no container")
        return table[number]

    def type(self) -> "type":
        name = self.text()
        kind = PLAIN_TYPES.get(name) or EXCEPTIONS.get(name)
        return kind if kind is not None else self.bad("a class")

    def exception(self) -> BaseException:
        kind = EXCEPTIONS.get(self.text())
        args = self.get()
        if kind not in CLASSES_OF_EXCEPTIONS or type(args) is not tuple:
            raise CodecError("no such exception")
        return make_exception(kind, args)

    def decimal(self) -> "Any":
        from decimal import Decimal, InvalidOperation

        try:
            return Decimal(self.text())
        except (InvalidOperation, ValueError):
            raise CodecError("no decimal number") from None

    def fraction(self) -> "Any":
        from fractions import Fraction

        parts = [self.get() for _ in range(self.length())]
        if len(parts) != 2 or not all(type(part) is int for part in parts) or not parts[1]:
            raise CodecError("no fraction")
        if any(part.bit_length() > FRACTION_BITS_MOST for part in parts):
            raise CodecError("a fraction too large")
        return Fraction(*parts)

    def path(self) -> "Any":
        from pathlib import PosixPath

        return PosixPath(self.text())

    def moment(self) -> "Any":
        import datetime

        parts = [self.get() for _ in range(self.length())]
        kind = parts[0] if parts else None
        if kind not in ("date", "time", "datetime", "timedelta", "timezone"):
            raise CodecError("no such moment")
        fold = parts.pop() if kind in ("time", "datetime") else None
        try:
            value = getattr(datetime, kind)(*parts[1:])
            return value if fold is None else value.replace(fold=fold)
        except (TypeError, ValueError, OverflowError):
            raise CodecError(f"no {kind}") from None

    def array(self) -> "Any":
        name = self.text()
        shape = self.get()
        scalar = self.get()
        data = self.bytes()
        if type(shape) is not tuple or len(shape) > 32 or type(scalar) is not bool:
            raise CodecError("no array")
        if len(name) > 24 or name[:1] not in "<>|=" or name[1:2] not in tuple("biufcSUmM"):
            raise CodecError("an array of what?")
        try:
            import numpy

            dtype = numpy.dtype(name)
            if dtype.hasobject or dtype.names is not None or dtype.subdtype:
                raise CodecError("an array of what?")
            count = 1
            for size in shape:
                if type(size) is not int or size < 0:
                    raise CodecError("an array without shape")
                count *= size
            if count * dtype.itemsize != len(data):
                raise CodecError("an array's bytes do not fill it")
            if dtype.itemsize == 0:
                value = numpy.zeros(shape, dtype)
            else:
                value = numpy.frombuffer(data, dtype).reshape(shape).copy()
        except (ImportError, TypeError, ValueError, OverflowError) as error:
            raise CodecError(f"no array: {error}") from None
        return value[()] if scalar else self.found(value)

    def reference(self) -> "Any":
        if self.other is None:
            raise CodecError("a reference where none may be")
        return self.other(self.get())

    def bad(self, what: str) -> "Any":
        raise CodecError(f"that is not {what}")


_READERS: "dict[int, Callable[[Decoder], Any]]" = {
    ord("N"): lambda d: None,
    ord("T"): lambda d: True,
    ord("F"): lambda d: False,
    ord("."): lambda d: ...,
    ord("!"): lambda d: NotImplemented,
    ord("I"): Decoder.integer,
    ord("D"): Decoder.double,
    ord("J"): Decoder.complex,
    ord("S"): Decoder.text,
    ord("Y"): Decoder.bytes,
    ord("A"): Decoder.bytearray,
    ord("L"): Decoder.list,
    ord("U"): Decoder.tuple,
    ord("E"): Decoder.set,
    ord("Z"): Decoder.frozenset,
    ord("Q"): Decoder.deque,
    ord("M"): Decoder.dict,
    ord("c"): Decoder.counter,
    ord("o"): Decoder.ordered,
    ord("e"): Decoder.defaults,
    ord("p"): Decoder.packed,
    ord("R"): Decoder.range,
    ord("V"): Decoder.slice,
    ord("r"): Decoder.known_one,
    ord("K"): Decoder.type,
    ord("X"): Decoder.exception,
    ord("d"): Decoder.decimal,
    ord("q"): Decoder.fraction,
    ord("P"): Decoder.path,
    ord("t"): Decoder.moment,
    ord("n"): Decoder.array,
    ord("H"): Decoder.reference,
}


def make_exception(kind: type, args: "tuple[Any, ...]") -> BaseException:
    """An exception of a built-in class; with its attributes (errno, ...) where args allow."""
    try:
        value = kind(*args)
        if type(value) is kind:
            return value
    except Exception:  # noqa: BLE001, S110 - UnicodeError and the like want more arguments
        pass
    value = kind.__new__(kind)
    value.args = args
    return value
