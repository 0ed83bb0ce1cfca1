# SPDX-License-Identifier: Apache-2.0 - values come back exactly, and bytes that are hostile.
import collections
import datetime
import decimal
import fractions
import math
import pathlib
import random
import time
from typing import Any

import pytest
from sealmark_examiner.changes import assign, copied, same, snapshot
from sealmark_examiner.codec import DEPTH_MOST, ITEMS_MOST, CodecError, Encoder
from sealmark_examiner.decoder import Decoder

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    127,
    128,
    -128,
    -129,
    2**63,
    -(2**63) - 1,
    10**1000,
    0.0,
    -0.0,
    1e308,
    5e-324,
    math.inf,
    -math.inf,
    complex(-0.0, math.inf),
    "",
    "é李\x00\udc80\U0001f600",
    b"",
    bytes(range(256)),
    bytearray(b"abc"),
    [],
    [1, [2, [3]]],
    list(range(100)),
    [0.5] * 100,
    [2**70] * 20,
    [True] * 20,
    (),
    (1, "a", None),
    tuple(range(50)),
    {1, "a", (2, 3)},
    frozenset({1, 2}),
    {},
    {"a": [1], 2: {"b": {3}}, None: 1, (1, 2): 3},
    range(0),
    range(10, -10, -3),
    slice(None, 5, -1),
    ...,
    NotImplemented,
    int,
    ValueError,
    object,
    type,
    collections.Counter("aab"),
    collections.OrderedDict([("b", 1), ("a", 2)]),
    collections.deque([1, 2], 7),
    collections.deque(),
    decimal.Decimal("-0.10"),
    decimal.Decimal("sNaN"),
    fractions.Fraction(-3, 7),
    datetime.date(1, 1, 1),
    datetime.time(23, 59, 59, 999999, fold=1),
    datetime.datetime(2026, 11, 29, 17, 48, tzinfo=datetime.timezone.utc),  # noqa: UP017
    datetime.timedelta(-1, 3, 5),
    datetime.timezone(datetime.timedelta(hours=-3)),
    pathlib.Path("/a/b"),
]


def encoded(value: Any) -> bytes:
    encoder = Encoder()
    encoder.put(value)
    return bytes(encoder.out)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:40])
def test_round_trip(value: Any) -> None:
    back = Decoder(encoded(value)).whole()
    assert type(back) is type(value)
    assert repr(back) == repr(value)


def test_nan_keeps_its_bits() -> None:
    import struct

    for bits in (0x7FF8000000000000, 0xFFF8000000000001):
        value = struct.unpack("<d", struct.pack("<Q", bits))[0]
        assert struct.pack("<d", Decoder(encoded(value)).whole()) == struct.pack("<Q", bits)
        assert struct.pack("<d", Decoder(encoded([value] * 20)).whole()[3]) == struct.pack(
            "<Q", bits
        )


def test_defaultdict_makes_nothing_up() -> None:
    back = Decoder(encoded(collections.defaultdict(list, a=1))).whole()
    assert back == {"a": 1}
    assert back.default_factory is None


class Sub(int):
    pass


@pytest.mark.parametrize("value", [Sub(1), object(), lambda: 0, Sub, math, [1, Sub(2)]])
def test_only_exact_types_are_values(value: Any) -> None:
    with pytest.raises(CodecError, match="cannot cross"):
        encoded(value)


def test_depth() -> None:
    value: Any = []
    for _ in range(DEPTH_MOST - 1):
        value = [value]
    assert Decoder(encoded(value)).whole() == value
    with pytest.raises(CodecError, match="nested"):
        encoded([value])
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CodecError, match="holds itself"):
        encoded(loop)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"?",
        b"NN",
        b"I",
        b"I\xff\xff\xff\xff\x7f1",
        b"I\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"L\xff\xff\xff\x7f",
        b"pLq\xff\xff\xff\xff\x01",
        b"pXq\x01" + bytes(8),
        b"E\x01L\x00",
        b"M\x01L\x00N",
        b"S\x01\xff",
        b"R\x03I\x01\x01I\x01\x01I\x01\x00",
        b"R\x03NNN",
        b"K\x04eval",
        b"X\x04evalU\x00",
        b"X\x0aValueErrorN",
        b"d\x03abc",
        b"q\x02I\x01\x01I\x01\x00",
        b"t\x02S\x04dateN",
        b"t\x02S\x08__init__N",
        b"Q\x00",
        b"Q\x02I\x01\x00N",
        b"r\x00",
        b"HN",
        b"n\x03<i8U\x01I\x08\xff\xff\xff\xff\xff\xff\xff\x7fF\x00",
        b"n\x02|OU\x00T\x08" + bytes(8),
        b"L\x01" * 200 + b"N",
    ],
)
def test_bad_bytes(data: bytes) -> None:
    with pytest.raises(CodecError):
        Decoder(data).whole()


def test_fuzz() -> None:
    """Mutated messages are values or CodecError; time and memory stay in proportion."""
    random.seed(7)
    seeds = [encoded(value) for value in VALUES] + [encoded(VALUES[:40])]
    end = time.monotonic() + 3
    tried = bad = 0
    while time.monotonic() < end or tried <= 1000:
        data = bytearray(random.choice(seeds))
        for _ in range(random.randint(1, 4)):
            kind = random.random()
            if kind < 0.6 and data:
                data[random.randrange(len(data))] = random.randrange(256)
            elif kind < 0.8:
                at = random.randrange(len(data) + 1)
                data[at:at] = random.choice(seeds)[: random.randint(1, 40)]
            elif data:
                del data[random.randrange(len(data)) :]
        tried += 1
        try:
            value = Decoder(bytes(data)).whole()
            encoded(value)
        except CodecError:
            bad += 1
    assert 0 < bad < tried


def test_no_more_values_than_memory_allows() -> None:
    many = [[]] * (ITEMS_MOST + 1)
    with pytest.raises(CodecError, match="more than"):
        encoded(many)
    with pytest.raises(CodecError, match="more than"):
        Decoder(b"L\x81\x80\x40" + b"N" * (ITEMS_MOST + 1)).whole()
    numbers = list(range(ITEMS_MOST + 1))  # packed
    assert Decoder(encoded(numbers)).whole() == numbers


def test_numbers_of_containers() -> None:
    inner = [1]
    sent: list[Any] = []
    encoder = Encoder(track=sent)
    encoder.put([inner, inner, {"k": inner}])
    received: list[Any] = []
    back = Decoder(bytes(encoder.out), track=received).whole()
    assert back[0] is back[1] is back[2]["k"]
    assert [type(each) for each in sent] == [type(each) for each in received]
    loop: list[Any] = []
    loop.append(loop)
    encoder = Encoder(track=[])
    encoder.put(loop)
    back = Decoder(bytes(encoder.out), track=[]).whole()
    assert back[0] is back
    reply = Encoder(known={id(received[1]): 1})
    reply.put([received[1], [2]])
    answer = Decoder(bytes(reply.out), known=sent).whole()
    assert answer[0] is inner


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        {"a": 1},
        {1, 2},
        bytearray(b"x"),
        collections.deque([1]),
        collections.Counter("a"),
        collections.OrderedDict(a=1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_changes_are_seen(value: Any) -> None:
    before = snapshot(value)
    assert same(value, before)
    other = copied(value)
    if isinstance(value, dict):
        value["new"] = 2
    elif isinstance(value, set):
        value.add(3)
    else:
        value.append(3)
    assert not same(value, before)
    assign(other, value)
    assert other == value and other is not value


def test_a_change_of_type_alone_is_seen() -> None:
    value: list[Any] = [1]
    before = snapshot(value)
    value[0] = True
    assert not same(value, before)


def test_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    arrays = [
        numpy.arange(6).reshape(2, 3),
        numpy.array([1.5, math.nan], dtype="f4"),
        numpy.array(["a", "é"]),
        numpy.array([], dtype=bool),
        numpy.array(5),
        numpy.array(["2026-01-01"], dtype="M8[D]"),
        numpy.asfortranarray(numpy.ones((2, 3), dtype=complex)),
    ]
    for array in arrays:
        back = Decoder(encoded(array)).whole()
        assert back.dtype == array.dtype and back.shape == array.shape
        assert back.tobytes() == array.tobytes()
    for scalar in (numpy.float64(1.5), numpy.int8(-3), numpy.bool_(True)):
        assert type(Decoder(encoded(scalar)).whole()) is type(scalar)
    with pytest.raises(CodecError):
        encoded(numpy.array([object()]))


def test_fraction_is_not_reduced_for_hours() -> None:
    """Two parts of 2 MiB held the examiner in one division of C until the whole run's time was
    over; no alarm ends that."""
    big = 1 << (16 << 20) | 1
    encoder = Encoder()
    encoder.items(b"q", (big, big - 2), 2)
    with pytest.raises(CodecError, match="too large"):
        Decoder(bytes(encoder.out)).whole()
    with pytest.raises(CodecError, match="too large"):
        Encoder().put(fractions.Fraction(big))
