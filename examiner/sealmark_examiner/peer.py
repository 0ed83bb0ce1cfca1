# SPDX-License-Identifier: Apache-2.0 - two processes that call each other's objects.
"""
Theory of operation

Both ends of the socket hold a Peer. A request names an operation, an object by its number and
operands; the answer is a value or an exception. While one waits for an answer it serves requests of
the other (a callback, input()), strictly nested: so there is never more than one message under way,
and an answer always belongs to the last request.

The examiner's end is `trusted`: what it gets is hostile. It answers only calls of functions that
the tests passed as arguments, and public attributes of objects that they passed; never a module, a
frame, a class, a function's own attributes: nothing from which the tests could be reached. A mock
can be called and has attributes, but how it is made up (return_value, __eq__, assert_called_with)
is the tests' affair: else it could be made one that equals everything, and be returned as answer.
"""

__builtins__ = dict(vars(__import__("builtins")))

from weakref import WeakValueDictionary  # noqa: E402

from . import standin  # noqa: E402
from .changes import assign, copied, same, snapshot  # noqa: E402
from .codec import (  # noqa: E402
    CLASSES_OF_EXCEPTIONS,
    EXCEPTIONS,
    MESSAGE_MOST,
    CodecError,
    Encoder,
)
from .decoder import Decoder, make_exception  # noqa: E402
from .standin import DUNDERS, Reference, StandIn, StandInType  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Transport(Protocol):
        def send(self, message: bytes) -> None: ...
        def receive(self) -> bytes: ...
        def callback_raised(self, error: BaseException) -> None: ...
        def share(self, name: str) -> None: ...
        def heard(self, text: str) -> None: ...
        def broke(self, text: str) -> BaseException: ...
        def stale(self) -> BaseException: ...
        def left(self, name: str) -> BaseException: ...


REQUEST, RESULT, RAISED = b"Q", b"R", b"X"
NESTED_MOST = 50
NAMES_MOST = 16
TEXT_MOST = 8192
_FUNCTION = type(lambda: 0)
_METHOD = type(NESTED_MOST.bit_length), type(Encoder().put), type("".join)
_PLAIN_CALLABLES = frozenset((_FUNCTION, type(len), *_METHOD, type(str.join), type(int.__add__)))
_MODULE = type(standin)
_HEAP_TYPE = 1 << 9
_CLOSED = (
    *("frame", "code", "traceback", "generator", "coroutine", "async_generator", "cell"),
    "partial",  # its arguments are the tests' own, as a closure is
)
_PRIVATE_HOMES = (
    "sealmark_examiner",
    "unittest.case",
    "unittest.result",
    "unittest.suite",
    "_pytest",
)
_MOCKS = ("unittest.mock", "mock.")


def is_mock(kind: type) -> bool:
    return any(f"{each.__module__}.".startswith(_MOCKS) for each in kind.__mro__)


def governs_mock(kind: type, name: str) -> bool:
    """An attribute that every mock has of its class, unlike those that are mocks again."""
    return name == "method_calls" or any(name in vars(each) for each in kind.__mro__)


class Refused(TypeError):
    """The other side asked for what it may not have."""


class Peer:
    """One end; `operations` are those beyond the common ones."""

    def __init__(
        self,
        transport: "Transport",
        trusted: bool,
        operations: "dict[str, Callable[..., Any]] | None" = None,
        where: "Callable[[BaseException], str] | None" = None,
    ) -> None:
        self.transport = transport
        self.trusted = trusted
        self.where = where
        self.nested = 0
        self.closed = False
        # ours that the other side holds: number -> [object, how often sent]
        self.exported: dict[int, list[Any]] = {}
        self.numbers: dict[int, int] = {}
        self.next_number = 1
        self.described: set[int] = set()
        self.unsent: list[int] = []  # described in a message that is not sent yet
        # theirs that we hold
        self.objects: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.received: dict[int, int] = {}
        self.classes: dict[int, Any] = {}
        self.dropped: list[tuple[int, int]] = []
        self.equality_asked: set[str] = set()
        self.operations: dict[str, Callable[..., Any]] = {
            "call": self.do_call,
            "get": self.do_get,
            "set": self.do_set,
            "del": self.do_delete,
            "dunder": self.do_dunder,
            **({} if trusted else {"copy": self.do_copy}),
            **(operations or {}),
        }

    # -- asking ------------------------------------------------------------------------------

    def call(self, number: int, args: "tuple[Any, ...]", kwargs: "dict[str, Any]") -> "Any":
        if self.trusted:
            for each in (*args, *kwargs.values()):
                if type(each) is str:
                    self.transport.share(each)
                elif type(each).__name__ == "PosixPath":
                    self.transport.share(str(each))
        return self.request("call", number, args, tuple(kwargs.items()))

    def attribute(self, number: int, name: str) -> "Any":
        value = self.request("get", number, name)
        if self.trusted and type(value) is StandInType:
            value._sealmark_named = True
        return value

    def request(self, operation: str, *operands: "Any") -> "Any":
        """Ask, serve what is asked meanwhile, and return the value or raise the exception."""
        if self.closed:
            raise self.transport.stale()
        dropped = tuple(self.dropped)
        self.dropped.clear()
        sent: list[Any] = []
        encoder = Encoder(self.write_reference, track=sent if self.trusted else None)
        self.nested += 1
        try:
            try:
                encoder.put((operation, dropped, *operands))
                if self.nested > NESTED_MOST:
                    raise RecursionError("calls between tests and student code are nested too deep")
                if len(encoder.out) > MESSAGE_MOST:
                    raise CodecError(f"arguments larger than {MESSAGE_MOST >> 20} MiB")
            except BaseException:
                self.take_back()
                raise
            self.send(REQUEST, encoder)
            while (message := self.transport.receive())[:1] == REQUEST:
                self.serve(message)
        finally:
            self.nested -= 1
        heard = self.transport.heard if self.trusted else None
        decoder = Decoder(message[1:], self.read_reference, known=sent, heard=heard)
        try:
            value, changes = self.pair(decoder.whole())
            for index, new in changes:
                assign(sent[index], new)
        except Exception as error:  # noqa: BLE001 - whatever these bytes bring about
            raise self.transport.broke(f"an answer that is none: {error}") from None
        if message[:1] == RESULT:
            return value
        if message[:1] != RAISED:
            raise self.transport.broke("neither a value nor an exception")
        raise self.exception(value)

    @staticmethod
    def pair(value: "Any") -> "tuple[Any, Any]":
        if type(value) is not tuple or len(value) != 2 or type(value[1]) is not tuple:
            raise CodecError("an answer has two parts")
        return value

    # -- serving -----------------------------------------------------------------------------

    def serve(self, message: bytes) -> None:
        """Do what is asked and answer."""
        received: list[Any] = []
        decoder = Decoder(
            message[1:],
            self.read_reference,
            track=None if self.trusted else received,
            heard=self.transport.heard if self.trusted else None,
        )
        try:
            request = decoder.whole()
            operation, dropped, *operands = request
            for number, times in dropped:
                self.release(number, times)
            doer = self.operations[operation]
        except Exception as error:  # noqa: BLE001
            raise self.transport.broke(f"a request that is none: {error}") from None
        before = [snapshot(each) for each in received]
        kind = RESULT
        try:
            value = doer(*operands)
        except (Exception, SystemExit) as error:
            if self.trusted:
                self.transport.callback_raised(error)
            kind, value = RAISED, self.raised(error)
        except BaseException as error:
            if self.trusted:
                raise
            kind, value = RAISED, self.raised(error)
        changes = tuple(
            (index, copied(each))
            for index, each in enumerate(received)
            if not same(each, before[index])
        )
        known = {id(each): index for index, each in enumerate(received)}
        try:
            encoder = Encoder(self.write_reference, known=known)
            encoder.put((value, changes))
            if len(encoder.out) > MESSAGE_MOST:
                raise CodecError(f"an answer larger than {MESSAGE_MOST >> 20} MiB")
        except Exception as error:  # noqa: BLE001 - whatever it is, the other side waits
            self.take_back()
            kind = RAISED
            encoder = Encoder(self.write_reference)
            encoder.put((self.raised(error), ()))
        self.send(kind, encoder)

    def send(self, kind: bytes, encoder: Encoder) -> None:
        self.unsent.clear()
        self.transport.send(kind + encoder.out)

    def take_back(self) -> None:
        """What was written is not sent: the other side does not know the classes in it."""
        self.described.difference_update(self.unsent)
        self.unsent.clear()

    def do_call(self, number: int, args: "Any", kwargs: "Any") -> "Any":
        function = self.callee(number)
        if self.trusted and not callable(function):
            raise Refused("not callable")
        return function(*args, **dict(kwargs))

    def do_get(self, number: int, name: str) -> "Any":
        return getattr(self.open(number, name), name)

    def do_set(self, number: int, name: str, value: "Any") -> None:
        target = self.open(number, name)
        if self.trusted and is_mock(type(target)) and standin.reference_of(value) is not None:
            raise Refused("an object of the student's cannot be put in a mock's place")
        setattr(target, name, value)

    def do_delete(self, number: int, name: str) -> None:
        delattr(self.open(number, name), name)

    def do_dunder(self, number: int, name: str, args: "Any") -> "Any":
        value = self.callee(number)
        if name not in DUNDERS:
            raise Refused(f"no special method {name}")
        return getattr(type(value), name)(value, *args)

    def do_copy(self, number: int, deep: bool) -> "Any":
        import copy

        return copy.deepcopy(self.object(number)) if deep else copy.copy(self.object(number))

    def object(self, number: "Any") -> "Any":
        try:
            return self.exported[number][0]
        except (KeyError, TypeError):
            raise self.transport.broke("a number of no object") from None

    def callee(self, number: "Any") -> "Any":
        value = self.object(number)
        if self.trusted and isinstance(value, type) and is_mock(value):
            raise Refused("student code makes no mocks")
        return value

    def open(self, number: int, name: "Any") -> "Any":
        """An object whose attribute `name` the other side may touch."""
        value = self.object(number)
        if self.trusted:
            kind = type(value)
            homes = [str(each.__module__) for each in kind.__mro__]
            if type(name) is not str or name[:1] == "_":
                raise Refused("private attributes are not for the other side")
            if (
                kind in _PLAIN_CALLABLES
                or isinstance(value, (type, _MODULE))
                or kind.__name__ in _CLOSED
                or not kind.__flags__ & _HEAP_TYPE
                or any(home.startswith(_PRIVATE_HOMES) for home in homes)
            ):
                raise Refused(f"attributes of a {kind.__name__} are not for the other side")
            if is_mock(kind) and governs_mock(kind, name):
                raise Refused(f"{name!r} of a mock is not for the other side")
        return value

    def release(self, number: int, times: int) -> None:
        entry = self.exported.get(number)
        if entry is None:
            return
        entry[1] -= times
        if entry[1] <= 0 and number not in self.described:
            del self.exported[number]
            self.numbers.pop(id(entry[0]), None)

    # -- references out ----------------------------------------------------------------------

    def write_reference(self, encoder: Encoder, value: "Any") -> None:
        kind = type(value)
        ref = standin.reference_of(value)
        if ref is not None:
            if ref.peer is not self:
                raise Refused("an object of a process of the student's that has ended")
            descriptor: tuple[Any, ...] = ("b", ref.number)
        elif kind.__name__ == "traceback":
            encoder.put(None)
            return
        elif kind in CLASSES_OF_EXCEPTIONS:
            encoder.exception(value)
            return
        elif kind is _AsObject or (self.trusted and hasattr(kind, "_sealmark_resolve")):
            encoder.put(value._sealmark_resolve())
            return
        elif self.trusted and (isinstance(value, _MODULE) or kind.__name__ in _CLOSED[:3]):
            raise TypeError(f"a {kind.__name__} of the tests cannot be passed to student code")
        elif self.trusted and isinstance(value, type):
            descriptor = ("f", self.export(value), "function")
        elif isinstance(value, type):
            descriptor = ("c", self.describe(value))
        elif kind in _PLAIN_CALLABLES:
            descriptor = ("f", self.export(value), "function")
        else:
            descriptor = ("o", self.export(value), self.describe(kind))
        encoder.out += b"H"
        encoder.put(descriptor)

    def export(self, value: "Any") -> int:
        number = self.numbers.get(id(value))
        if number is None:
            number = self.next_number
            self.next_number += 1
            self.numbers[id(value)] = number
            self.exported[number] = [value, 0]
        self.exported[number][1] += 1
        return number

    def describe(self, kind: type) -> "tuple[Any, ...]":
        """A class by its number, and what it is like when that was not said before."""
        number = self.export(kind)
        if number in self.described:
            return (number,)
        self.described.add(number)
        self.unsent.append(number)
        own = [vars(each) for each in kind.__mro__ if each is not object]
        dunders = []
        for name in sorted(DUNDERS):
            holder = next((space for space in own if name in space), None)
            if holder is not None and holder[name] is not None:
                dunders.append(name)
        bases = () if self.trusted else tuple(kind.__bases__)
        return (number, kind.__name__, str(kind.__module__), tuple(dunders), bases)

    # -- references in -----------------------------------------------------------------------

    def read_reference(self, descriptor: "Any") -> "Any":
        if type(descriptor) is not tuple or not descriptor:
            raise CodecError("a reference to nothing")
        kind, *rest = descriptor
        if kind == "b" and len(rest) == 1:
            if type(rest[0]) is not int or rest[0] not in self.exported:
                raise CodecError("a reference to an object never given")
            return self.exported[rest[0]][0]
        if kind == "c" and len(rest) == 1:
            return self.known_class(rest[0])
        if kind == "f" and len(rest) == 2:
            return self.known_object(rest[0], self.function_class())
        if kind == "o" and len(rest) == 2:
            return self.known_object(rest[0], self.known_class(rest[1]))
        raise CodecError("a reference of no kind")

    def function_class(self) -> type:
        cls = self.classes.get(0)
        if cls is None:
            cls = standin.make_class(self, 0, "function", "builtins", ("__call__", "__repr__"), ())
            self.classes[0] = cls
        return cls

    def known_object(self, number: "Any", cls: "Any") -> "Any":
        if type(number) is not int:
            raise CodecError("an object without number")
        self.received[number] = self.received.get(number, 0) + 1
        value = self.objects.get(number)
        if value is None:
            ref = Reference(self, number)
            value = standin.make_object(cls, ref)
            self.objects[number] = value
        return value

    def known_class(self, info: "Any") -> "Any":
        if type(info) is not tuple or not info or type(info[0]) is not int or info[0] <= 0:
            raise CodecError("a class without number")
        cls = self.classes.get(info[0])
        if cls is not None:
            return cls
        if len(info) != 5 or type(info[1]) is not str or type(info[2]) is not str:
            raise CodecError("a class without name")
        if type(info[3]) is not tuple or type(info[4]) is not tuple or len(info[4]) > NAMES_MOST:
            raise CodecError("a class without description")
        if not all(type(name) is str for name in info[3]):
            raise CodecError("a class with strange methods")
        bases = tuple(self.base(base) for base in info[4])
        cls = standin.make_class(
            self,
            info[0],
            info[1][:200].replace("\0", ""),
            info[2][:200],
            tuple(name for name in info[3] if name in DUNDERS),
            tuple(dict.fromkeys(base for base in bases if base is not None)),
        )
        self.classes[info[0]] = cls
        return cls

    def base(self, base: "Any") -> "type | None":
        if type(base) is StandInType:
            return base
        if base not in CLASSES_OF_EXCEPTIONS:
            return None
        # what would break out of a test framework is an ordinary exception here
        return base if issubclass(base, (Exception, SystemExit)) else Exception

    def drop(self, number: int) -> None:
        self.dropped.append((number, self.received.pop(number, 0)))

    def compared(self, cls: type) -> None:
        """An object that has its own __eq__ was compared with a plain value; a note for staff."""
        if "__eq__" in cls._sealmark_dunders and not standin.named(cls):  # type: ignore[attr-defined]
            self.equality_asked.add(cls.__name__)

    # -- exceptions --------------------------------------------------------------------------

    def raised(self, error: BaseException) -> "tuple[Any, ...]":
        """An exception as values: (built-in class, names, args, text, where, class, object)."""
        kind = type(error)
        mro = kind.__mro__
        base = next((each for each in mro if each in CLASSES_OF_EXCEPTIONS), Exception)
        names = tuple(f"{each.__module__}.{each.__qualname__}" for each in mro[:NAMES_MOST])
        args = error.args if type(error.args) is tuple else ()
        try:
            Encoder(self.write_reference).put(args)
        except Exception:  # noqa: BLE001
            args = ()
        self.take_back()  # that was a trial
        try:
            text = str(error)[:TEXT_MOST]
        except Exception:  # noqa: BLE001
            text = ""
        where = self.where(error) if self.where is not None else ""
        own = kind is not base and not self.trusted
        return (
            base,
            names,
            args,
            text if type(text) is str else "",
            where,
            kind if own else None,
            _AsObject(error) if own else None,
        )

    def exception(self, info: "Any") -> BaseException:
        """The exception to raise here for one that was raised there."""
        if type(info) is not tuple or len(info) != 7:
            raise self.transport.broke("an exception that is none")
        base, names, args, text, where, cls, value = info
        if (
            base not in CLASSES_OF_EXCEPTIONS
            or type(names) is not tuple
            or not all(type(name) is str for name in names)
            or type(args) is not tuple
            or type(text) is not str
            or type(where) is not str
        ):
            raise self.transport.broke("an exception that is none")
        if self.trusted and not issubclass(base, (Exception, SystemExit)):
            if base is not BaseException:
                return self.transport.left(base.__name__)
            base = Exception
        if type(cls) is StandInType and issubclass(cls, standin.StandInError):
            error = standin.make_error(cls, args, text, standin.reference_of(value))
        else:
            error = make_exception(EXCEPTIONS[base.__name__], args)
        error.__dict__["_sealmark_remote"] = (base.__name__, names, text, where)
        return error


class _AsObject:
    """Makes an exception cross as an object where its class would make it cross as a value."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def _sealmark_resolve(self) -> BaseException:
        return self.error


__all__ = ["Peer", "Refused", "StandIn"]
