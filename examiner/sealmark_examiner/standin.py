# SPDX-License-Identifier: Apache-2.0 - local classes and objects that stand for another process's.
"""
Theory of operation

For each class of the other side a local class is made, with the same name, the same bases and the
special methods that the other class has, each of which asks the other side. So isinstance(),
callable(), len(), `with`, and `except hw.MyError` behave as they would with the object itself.

What is never asked: whether such an object equals a plain value (it does not), or how the two are
ordered. Else an object whose __eq__ is always true would pass every test, and would see what it is
compared with. For the same reason arithmetic and `in` with a plain value reach an object only when
the tests have named its class: where a number was expected, `abs(hw.f(2) - 5) < 1e-9` must not be
answered by the thing that came instead. And a named class may come there, too: what arithmetic with
a plain value gives is an object again, as a vector times 2 is, never a plain number, and abs() and
round() are not asked of it. So no answer that has seen the expected number is compared with one.
Two objects of the student's are equal as their class says, which is the student's own word, unless
it says so of every value. Methods by which a test asks a string or a set about a plain value
(startswith, issubset) are arithmetic in that sense: what came instead of a string must not say that
it begins right.
"""

__builtins__ = dict(vars(__import__("builtins")))

from os import urandom  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .peer import Peer

COMPARE = frozenset(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"))
_ARITHMETIC = (
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow"),
    *("lshift", "rshift", "and", "xor", "or"),
)
BINARY = frozenset(f"__{way}{name}__" for name in _ARITHMETIC for way in ("", "r", "i"))
OTHERS = frozenset(
    f"__{name}__"
    for name in (
        *("abs", "bool", "bytes", "call", "ceil", "complex", "contains", "delitem", "enter"),
        *("exit", "float", "floor", "format", "fspath", "getitem", "hash", "index", "int"),
        *("invert", "iter", "len", "neg", "next", "pos", "repr", "reversed", "round"),
        *("setitem", "str", "trunc"),
    )
)
DUNDERS = COMPARE | BINARY | OTHERS
# Attributes with double underscores that may be asked for by name.
ASKED = frozenset(
    ("__dict__", "__doc__", "__name__", "__qualname__", "__annotations__", "__defaults__")
)
# Methods of str and set that are given what was expected and say whether it is so.
JUDGES = frozenset(
    (
        *("startswith", "endswith", "difference", "symmetric_difference"),
        *("isdisjoint", "issubset", "issuperset"),
    )
)
_FIELDS = ("_sealmark_ref", "_sealmark_text", "_sealmark_remote")
_set = object.__setattr__
_get = object.__getattribute__


class Reference:
    """An object of the other side; told to it when nobody here holds it any more."""

    __slots__ = ("peer", "number", "mixed", "__weakref__")

    def __init__(self, peer: "Peer", number: int) -> None:
        self.peer = peer
        self.number = number
        self.mixed = False  # came of arithmetic with a plain value of the tests

    def __del__(self) -> None:
        self.peer.drop(self.number)


def askable(name: str) -> bool:
    return not (name[:2] == "__" and name[-2:] == "__") or name in ASKED


class StandInType(type):
    """The type of stand-in classes: what is done to the class is done to the other class."""

    _sealmark_class: "Reference | None" = None
    _sealmark_named = False

    def __call__(cls, *args: "Any", **kwargs: "Any") -> "Any":
        ref = class_reference(cls)
        return ref.peer.call(ref.number, args, kwargs)

    def __getattr__(cls, name: str) -> "Any":
        ref = type.__getattribute__(cls, "__dict__").get("_sealmark_class")
        if ref is None or not askable(name):
            raise AttributeError(f"{cls.__name__!r} has no attribute {name!r}")
        return ref.peer.attribute(ref.number, name)

    def __setattr__(cls, name: str, value: "Any") -> None:
        if name in ("_sealmark_class", "_sealmark_named", "_sealmark_equals_all"):
            type.__setattr__(cls, name, value)
            return
        ref = class_reference(cls)
        ref.peer.request("set", ref.number, name, value)

    def __delattr__(cls, name: str) -> None:
        ref = class_reference(cls)
        ref.peer.request("del", ref.number, name)

    def __bool__(cls) -> bool:
        return True

    def __iter__(cls) -> "Any":
        return ask_class(cls, "__iter__")

    def __len__(cls) -> int:
        return ask_class(cls, "__len__")

    def __getitem__(cls, key: "Any") -> "Any":
        return ask_class(cls, "__getitem__", key)

    def __contains__(cls, key: "Any") -> bool:
        return ask_class(cls, "__contains__", key)


def class_reference(cls: "Any") -> Reference:
    ref = type.__getattribute__(cls, "__dict__").get("_sealmark_class")
    if ref is None:
        raise TypeError("classes of the student's module cannot be used as bases in tests")
    return ref


def ask_class(cls: "Any", name: str, *args: "Any") -> "Any":
    ref = class_reference(cls)
    return ref.peer.request("dunder", ref.number, name, args)


class StandIn(metaclass=StandInType):
    """An object of the other side."""

    __slots__ = ("_sealmark_ref", "__weakref__")

    def __getattr__(self, name: str) -> "Any":
        if name in _FIELDS or not askable(name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        ref = _get(self, "_sealmark_ref")
        if name in JUDGES and ref.peer.trusted and not named(type(self)):
            ref.peer.compared(type(self))
            raise AttributeError(
                f"the tests name no class {type(self).__name__}: {name!r} is not asked"
            )
        return ref.peer.attribute(ref.number, name)

    def __setattr__(self, name: str, value: "Any") -> None:
        ref = _get(self, "_sealmark_ref")
        ref.peer.request("set", ref.number, name, value)

    def __delattr__(self, name: str) -> None:
        ref = _get(self, "_sealmark_ref")
        ref.peer.request("del", ref.number, name)

    def __dir__(self) -> "list[str]":
        return ["_sealmark_ref"]

    def __copy__(self) -> "Any":
        ref = _get(self, "_sealmark_ref")
        return ref.peer.request("copy", ref.number, False)

    def __deepcopy__(self, memo: "Any") -> "Any":
        ref = _get(self, "_sealmark_ref")
        return ref.peer.request("copy", ref.number, True)

    def __reduce_ex__(self, protocol: "Any") -> "Any":
        raise TypeError("an object of another process cannot be pickled")


class StandInError(Exception, metaclass=StandInType):
    """An exception of a class of the other side; its other base is a built-in exception."""

    def __getattr__(self, name: str) -> "Any":
        ref = _get(self, "__dict__").get("_sealmark_ref")
        if ref is None or name in _FIELDS or not askable(name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return ref.peer.attribute(ref.number, name)

    def __str__(self) -> str:
        text = _get(self, "__dict__").get("_sealmark_text")
        return Exception.__str__(self) if text is None else text


def reference_of(value: "Any") -> "Reference | None":
    """What a stand-in stands for, or None when `value` is none."""
    kind = type(value)
    if kind is StandInType:
        return type.__getattribute__(value, "__dict__").get("_sealmark_class")
    if type(kind) is not StandInType:
        return None
    if issubclass(kind, StandInError):
        return _get(value, "__dict__").get("_sealmark_ref")
    return _get(value, "_sealmark_ref")


def ask(value: "Any", name: str, args: "tuple[Any, ...]") -> "Any":
    ref = _get(value, "_sealmark_ref")
    return ref.peer.request("dunder", ref.number, name, args)


def _compare(name: str) -> "Callable[..., Any]":
    def method(self: "Any", other: "Any") -> "Any":
        ref = _get(self, "_sealmark_ref")
        theirs = reference_of(other)
        if theirs is not None and theirs.peer is ref.peer:
            if ref.peer.trusted and name in ("__eq__", "__ne__") and equals_all(type(self), ref):
                return name == "__ne__"
            return ref.peer.request("dunder", ref.number, name, (other,))
        if ref.peer.trusted:
            ref.peer.compared(type(self))
            return name == "__ne__" if name in ("__eq__", "__ne__") else NotImplemented
        return ref.peer.request("dunder", ref.number, name, (other,))

    return method


def equals_all(cls: "Any", ref: Reference) -> bool:
    """True for a class whose objects say that they equal a number which nobody has seen: then what
    they say of each other is worth as little. Asked once."""
    known = vars(cls).get("_sealmark_equals_all")
    if known is None:
        strange = int.from_bytes(urandom(8), "little") | 1 << 64
        try:
            known = ref.peer.request("dunder", ref.number, "__eq__", (strange,)) is True
        except Exception:  # noqa: BLE001 - it cannot be compared with numbers
            known = False
        cls._sealmark_equals_all = known
    if known:
        ref.peer.equality_asked.add(cls.__name__)
    return known


def _binary(name: str) -> "Callable[..., Any]":
    def method(self: "Any", *others: "Any") -> "Any":
        ref = _get(self, "_sealmark_ref")
        if not ref.peer.trusted:
            return ref.peer.request("dunder", ref.number, name, others)
        theirs = reference_of(others[0])
        if theirs is None and not named(type(self)):
            ref.peer.compared(type(self))
            return NotImplemented
        value = ref.peer.request("dunder", ref.number, name, others)
        if theirs is None or theirs.mixed or ref.mixed:
            result = reference_of(value)
            if result is not None:
                result.mixed = True
            elif is_number(value):
                ref.peer.compared(type(self))
                raise TypeError(f"{type(self).__name__}.{name} with a plain value gave a number")
        return value

    return method


def is_number(value: "Any") -> bool:
    """Of any type that crosses by value: numpy's numbers and arrays have `dtype`."""
    return isinstance(value, (int, float, complex)) or (
        reference_of(value) is None
        and (hasattr(value, "numerator") or hasattr(value, "dtype"))
        or type(value).__name__ == "Decimal"
    )


def _size(name: str) -> "Callable[..., Any]":
    def method(self: "Any", *args: "Any") -> "Any":
        ref = _get(self, "_sealmark_ref")
        if ref.peer.trusted and ref.mixed:
            ref.peer.compared(type(self))
            raise TypeError(f"{name} of what came of {type(self).__name__} and a plain value")
        return ask(self, name, args)

    return method


def _contains(self: "Any", item: "Any") -> "Any":
    ref = _get(self, "_sealmark_ref")
    if ref.peer.trusted and reference_of(item) is None and not named(type(self)):
        if "__iter__" not in type(self)._sealmark_dunders:
            ref.peer.compared(type(self))
            raise TypeError(f"the tests name no class {type(self).__name__}: `in` is not asked")
        return any(item is each or item == each for each in self)
    return ask(self, "__contains__", (item,))


def _other(name: str) -> "Callable[..., Any]":
    def method(self: "Any", *args: "Any") -> "Any":
        return ask(self, name, args)

    return method


def _call(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
    ref = _get(self, "_sealmark_ref")
    return ref.peer.call(ref.number, args, kwargs)


_METHODS: "dict[str, Callable[..., Any]]" = {
    **{name: _other(name) for name in OTHERS},
    **{name: _binary(name) for name in BINARY},
    **{name: _compare(name) for name in COMPARE},
    **{name: _size(name) for name in ("__abs__", "__round__")},
    "__contains__": _contains,
    "__call__": _call,
}


def named(cls: "Any") -> bool:
    """True when the tests have named the class or one it derives from."""
    return any("_sealmark_named" in vars(each) for each in cls.__mro__)


def make_class(
    peer: "Peer", number: int, name: str, module: str, dunders: "Any", bases: "tuple[type, ...]"
) -> type:
    """The local class for class `number`; bases are stand-in classes or built-in exceptions."""
    errors = tuple(base for base in bases if issubclass(base, BaseException))
    if errors:
        if not any(issubclass(base, StandInError) for base in errors):
            errors = (StandInError, *errors)
        bases = errors
    elif not bases:
        bases = (StandIn,)
    space: dict[str, Any] = {
        "__module__": module,
        "__qualname__": name,
        "_sealmark_class": Reference(peer, number),
        "_sealmark_dunders": frozenset(dunders),
    }
    if not errors:
        space["__slots__"] = ()
        space.update((each, _METHODS[each]) for each in dunders)
        if "__eq__" in dunders and "__hash__" not in dunders:
            space["__hash__"] = None
    try:
        return type.__new__(StandInType, name, bases, space)
    except TypeError:  # bases that do not go together
        return type.__new__(StandInType, name, bases[:1] if not errors else bases[:2], space)


def make_object(cls: type, ref: Reference) -> "Any":
    value = cls.__new__(cls)
    _set(value, "_sealmark_ref", ref)
    return value


def make_error(cls: type, args: "tuple[Any, ...]", text: str, ref: "Reference | None") -> "Any":
    value = cls.__new__(cls)
    value.args = args
    _set(value, "_sealmark_text", text)
    if ref is not None:
        _set(value, "_sealmark_ref", ref)
    return value
