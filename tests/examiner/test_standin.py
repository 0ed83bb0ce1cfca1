# SPDX-License-Identifier: Apache-2.0 - `import hw` behaves as if the module were here.
"""One run of many small tests, each a thing that teachers' tests do with a student's module."""

import textwrap

import pytest
from native import Run, examine

STUDENT = """
    import collections, contextlib, datetime, decimal, enum, fractions, math, random, sys
    from dataclasses import dataclass

    PI = 3.14
    NAMES = ["a", "b"]

    def same(x): return x
    def add(a, b=1, *, c=0): return a + b + c
    def raises(kind): raise getattr(__builtins__ if not isinstance(__builtins__, dict)
        else type("B", (), __builtins__), kind)("text", 7)
    def sort(items): items.sort()
    def grow(items): items.append(4); items[0] = [9]; return items
    def rows(matrix):
        for row in matrix: row.append(0)
        matrix.append(matrix[0])
    def count(words): return collections.Counter(words)
    def twice(f, x): return f(f(x))
    def keyed(items, key): return sorted(items, key=key)
    def squares(n):
        for i in range(n): yield i * i
    def forever():
        i = 0
        while True:
            yield i
            i += 1
    def shout(text): print(text.upper()); print("err", file=sys.stderr)
    def ask(): return input("name? ") + "!"
    def lines(): return [line.strip() for line in sys.stdin]
    def dice(): return random.randint(1, 6)
    def helper(): return 1
    def uses_helper(): return helper() + 1
    def fill(d, s, b): d["k"] = 1; s.add(2); b.extend(b"x")
    def when(): return datetime.datetime(2026, 1, 2, 3, 4, 5, 6)
    def swallow(f):
        try: f()
        except Exception: pass
        return 1

    class MyError(ValueError):
        def __init__(self, text, code): super().__init__(text); self.code = code
    class Plain(Exception): pass
    def fail(): raise MyError("bad", 42)
    def fail_plain(): raise Plain("p")
    def exits(): sys.exit(3)
    def asserts(): assert 1 == 2, "mine"
    def errno(): open("/nowhere/x")

    class Stack:
        kind = "stack"
        made = 0
        def __init__(self, *items): self.items = list(items); Stack.made += 1
        def push(self, x): self.items.append(x); return self
        def pop(self):
            if not self.items: raise IndexError("pop from empty stack")
            return self.items.pop()
        def __len__(self): return len(self.items)
        def __iter__(self): return iter(self.items)
        def __getitem__(self, i): return self.items[i]
        def __setitem__(self, i, x): self.items[i] = x
        def __contains__(self, x): return x in self.items
        def __repr__(self): return f"Stack({self.items})"
        def __eq__(self, other): return isinstance(other, Stack) and self.items == other.items
        @property
        def top(self): return self.items[-1]
        @classmethod
        def of(cls, n): return cls(*range(n))
        @staticmethod
        def name(): return "st"
    class Special(Stack): pass
    class Node:
        def __init__(self, v, next=None): self.v = v; self.next = next
        def me(self): return self
    class Vec:
        def __init__(self, x, y): self.x, self.y = x, y
        def __add__(self, o): return Vec(self.x + o.x, self.y + o.y)
        def __mul__(self, k): return Vec(self.x * k, self.y * k)
        __rmul__ = __mul__
        def __abs__(self): return math.hypot(self.x, self.y)
        def __eq__(self, o): return (self.x, self.y) == (o.x, o.y)
        def __hash__(self): return hash((self.x, self.y))
        def __lt__(self, o): return abs(self) < abs(o)
        def __bool__(self): return bool(self.x or self.y)
        def __call__(self, z): return self.x + z
        def __str__(self): return f"<{self.x},{self.y}>"
    class Door:
        def __init__(self): self.log = []
        def __enter__(self): self.log.append("in"); return self
        def __exit__(self, *e): self.log.append(e[0].__name__ if e[0] else None); return True
    @contextlib.contextmanager
    def room():
        yield "room"
    class Color(enum.Enum):
        RED = 1
        BLUE = 2
    @dataclass
    class Point:
        x: int
        y: int = 0
    def make_point(): return Point(1, 2)
    class Liar:
        def __eq__(self, o): return True
        def __ne__(self, o): return False
        def __lt__(self, o): return True
        __le__ = __gt__ = __ge__ = __lt__
        def __sub__(self, o): return 0
        __rsub__ = __sub__
        def __abs__(self): return 0
        def __contains__(self, o): return True
        def __hash__(self): return hash(5)
        def __bool__(self): return True
    def lie(*a): return Liar()
    class LyingInt(int):
        def __eq__(self, o): return True
        def __hash__(self): return 5
    def lying_int(): return LyingInt(1)
    class LyingMeta(type):
        def __eq__(cls, o): return True
        def __instancecheck__(cls, o): return True
        def __hash__(cls): return 1
    class Meta(metaclass=LyingMeta): pass
    def make_hidden():
        class Hidden:
            def __iter__(self): return iter([1, 2])
            def __contains__(self, x): return True
        return Hidden()
    def peek(f):
        return [hasattr(f, n) for n in ("__globals__", "__code__", "__closure__", "__self__")]
    def attribute(o, name): return getattr(o, name)
"""

# name -> body of a test; those whose name begins with "no" must fail, with "err" end in an error
BODIES = {
    "none": "self.assertIsNone(hw.same(None))",
    "err_named_class_forges_difference": "hw.Liar; self.assertTrue(abs(hw.lie() - 5) < 1e-9)",
    "err_named_class_forges_almost": "hw.Liar; self.assertAlmostEqual(hw.lie(), 5.0)",
    "bool": "self.assertIs(hw.same(True), True)",
    "big_int": "self.assertEqual(hw.same(-(10**400)), -(10**400))",
    "nan": "self.assertTrue(math.isnan(hw.same(float('nan'))))",
    "minus_zero": "self.assertEqual(math.copysign(1, hw.same(-0.0)), -1)",
    "inf": "self.assertEqual(hw.same(float('inf')), float('inf'))",
    "complex": "self.assertEqual(hw.same(1+2j), 1+2j)",
    "surrogate": "self.assertEqual(hw.same('\\udc80é李'), '\\udc80é李')",
    "bytes": "self.assertEqual(hw.same(bytes(range(256))), bytes(range(256)))",
    "nested": "v = [1, (2, {3: {4, 5}}), frozenset([6])]; self.assertEqual(hw.same(v), v)",
    "list_type": "self.assertListEqual(hw.same([1]), [1])",
    "tuple_type": "self.assertEqual(hw.same((1,)), (1,)); self.assertNotEqual(hw.same((1,)), [1])",
    "long_list": "v = list(range(5000)); self.assertEqual(hw.same(v), v)",
    "mixed_list": "v = [1, 2.0, True] * 20; self.assertEqual(repr(hw.same(v)), repr(v))",
    "range": "self.assertEqual(hw.same(range(1, 9, 2)), range(1, 9, 2))",
    "slice": "self.assertEqual(hw.same(slice(1, None)), slice(1, None))",
    "ellipsis": "self.assertIs(hw.same(...), ...)",
    "decimal": "self.assertEqual(str(hw.same(Decimal('1.10'))), '1.10')",
    "fraction": "self.assertEqual(hw.same(Fraction(1, 3)), Fraction(1, 3))",
    "datetime": "self.assertEqual(hw.when(), datetime.datetime(2026, 1, 2, 3, 4, 5, 6))",
    "date": "v = datetime.date(2026, 2, 28); self.assertEqual(hw.same(v), v)",
    "delta": "v = datetime.timedelta(1, 2, 3); self.assertEqual(hw.same(v), v)",
    "zone": "v = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc);"
    " self.assertEqual(hw.same(v).tzinfo, v.tzinfo)",
    "path": "import pathlib; self.assertEqual(hw.same(pathlib.Path('/a')), pathlib.Path('/a'))",
    "counter": "self.assertEqual(hw.count('aab'), {'a': 2, 'b': 1})",
    "counter_type": "self.assertEqual(hw.count('aab').most_common(1), [('a', 2)])",
    "deque": "v = collections.deque([1, 2], 5); self.assertEqual(hw.same(v).maxlen, 5)",
    "ordered": "v = collections.OrderedDict(b=1, a=2);"
    " self.assertEqual(list(hw.same(v)), ['b', 'a'])",
    "class_value": "self.assertIs(hw.same(int), int); self.assertIs(hw.same(KeyError), KeyError)",
    "exception_value": "self.assertEqual(hw.same(ValueError(1)).args, (1,))",
    "keywords": "self.assertEqual(hw.add(1, b=2, c=3), 6)",
    "defaults": "self.assertEqual(hw.add(1), 2)",
    "constant": "self.assertEqual(hw.PI, 3.14); self.assertEqual(PI, 3.14)",
    "constant_type": "self.assertIs(type(PI), float); self.assertIs(type(NAMES), list)",
    "from_import": "self.assertEqual(add(2, 3), 5)",
    "hasattr": "self.assertTrue(hasattr(hw, 'add')); self.assertFalse(hasattr(hw, 'nothing'))",
    "callable": "self.assertTrue(callable(hw.add)); self.assertTrue(callable(add))",
    "err_missing": "hw.nothing(1)",
    "err_missing_import": "missing(1)",
    "import_inside": "from hw import sort, PI; self.assertEqual(PI, 3.14)",
    "import_inside_missing": "with self.assertRaises(ImportError):\n from hw import nothing",
    "sort_in_place": "v = [3, 1, 2]; self.assertIsNone(hw.sort(v)); self.assertEqual(v, [1, 2, 3])",
    "grow_in_place": "v = [1, 2]; w = hw.grow(v); self.assertEqual(v, [[9], 2, 4]);"
    " self.assertIs(w, v)",
    "matrix_in_place": "m = [[1], [2]]; first = m[0]; hw.rows(m);"
    " self.assertEqual(m, [[1, 0], [2, 0], [1, 0]]); self.assertIs(m[0], first);"
    " self.assertIs(m[2], first)",
    "aliases": "r = [0]; m = [r, r]; hw.rows(m); self.assertEqual(r, [0, 0, 0])",
    "dict_set_bytearray": "d, s, b = {}, {1}, bytearray(b'a'); hw.fill(d, s, b);"
    " self.assertEqual((d, s, b), ({'k': 1}, {1, 2}, bytearray(b'ax')))",
    "callback": "self.assertEqual(hw.twice(lambda x: x + 3, 1), 7)",
    "callback_key": "self.assertEqual(hw.keyed(['bb', 'a'], key=len), ['a', 'bb'])",
    "callback_nested": "self.assertEqual(hw.twice(lambda x: hw.add(x, 1), 1), 3)",
    "callback_raises": "with self.assertRaises(KeyError):\n hw.twice(lambda x: {}[x], 1)",
    "no_callback_assert": "def f(): self.fail('seen')\nhw.swallow(f)",
    "callback_student": "self.assertEqual(hw.twice(hw.add, 1), 3)",
    "callback_is_closed": "self.assertEqual(hw.peek(lambda: 0), [False] * 4)",
    "generator": "self.assertEqual(list(hw.squares(4)), [0, 1, 4, 9])",
    "generator_endless": "import itertools;"
    " self.assertEqual(list(itertools.islice(hw.forever(), 3)), [0, 1, 2])",
    "generator_next": "g = hw.squares(1); self.assertEqual(next(g), 0)\n"
    "with self.assertRaises(StopIteration):\n next(g)",
    "raises": "with self.assertRaises(ValueError) as c:\n hw.raises('ValueError')\n"
    "self.assertEqual(c.exception.args, ('text', 7)); self.assertIs(type(c.exception), ValueError)",
    "raises_call": "self.assertRaises(IndexError, hw.Stack().pop)",
    "raises_regex": "with self.assertRaisesRegex(IndexError, 'empty'):\n hw.Stack().pop()",
    "raises_own": "with self.assertRaises(hw.MyError) as c:\n hw.fail()\n"
    "self.assertEqual(c.exception.code, 42); self.assertEqual(str(c.exception), 'bad')",
    "raises_own_base": "with self.assertRaises(ValueError):\n hw.fail()",
    "raises_own_imported": "with self.assertRaises(MyError):\n hw.fail()",
    "raises_not_other": "with self.assertRaises(hw.Plain):\n hw.fail_plain()",
    "err_raises_other": "with self.assertRaises(hw.Plain):\n hw.fail()",
    "raises_exit": "with self.assertRaises(SystemExit) as c:\n hw.exits()\n"
    "self.assertEqual(c.exception.code, 3)",
    "raises_assertion": "with self.assertRaises(AssertionError):\n hw.asserts()",
    "raises_oserror": "with self.assertRaises(FileNotFoundError) as c:\n hw.errno()\n"
    "self.assertEqual(c.exception.errno, 2)",
    "err_assertion": "hw.asserts()",
    "err_uncaught": "hw.fail()",
    "no_raise": "with self.assertRaises(ValueError):\n hw.add(1)",
    "object": "s = hw.Stack(1); s.push(2); self.assertEqual(s.pop(), 2);"
    " self.assertEqual(len(s), 1)",
    "object_chain": "self.assertEqual(hw.Stack().push(1).push(2).items, [1, 2])",
    "object_protocols": "s = hw.Stack(1, 2); self.assertEqual(list(s), [1, 2]);"
    " self.assertEqual(s[0], 1); s[0] = 5; self.assertEqual(s.items, [5, 2]); self.assertIn(5, s);"
    " self.assertNotIn(1, s); self.assertEqual(s.top, 2);"
    " self.assertEqual(repr(s), 'Stack([5, 2])')",
    "object_set": "s = hw.Stack(); s.items = [7]; self.assertEqual(s.pop(), 7)",
    "object_class": "s = hw.Stack(); self.assertIsInstance(s, hw.Stack);"
    " self.assertIsInstance(s, Stack); self.assertNotIsInstance(s, hw.Vec);"
    " self.assertIs(type(s), hw.Stack); self.assertEqual(type(s).__name__, 'Stack')",
    "object_subclass": "s = hw.Special(1); self.assertIsInstance(s, hw.Stack);"
    " self.assertTrue(issubclass(hw.Special, hw.Stack)); self.assertEqual(len(s), 1)",
    "object_identity": "n = hw.Node(1); self.assertIs(n.me(), n); m = hw.Node(2, n);"
    " self.assertIs(m.next, n)",
    "object_passed": "n = hw.Node(hw.Stack(1)); self.assertEqual(n.v.items, [1])",
    "object_equal": "self.assertEqual(hw.Stack(1), hw.Stack(1));"
    " self.assertNotEqual(hw.Stack(1), hw.Stack(2))",
    "object_truth": "self.assertFalse(hw.Stack()); self.assertTrue(hw.Vec(1, 0));"
    " self.assertFalse(hw.Vec(0, 0)); self.assertTrue(hw.Node(1))",
    "object_iter_missing": "with self.assertRaises(TypeError):\n iter(hw.Node(1))",
    "object_many": "for i in range(300):\n s = hw.Stack(i)\n self.assertEqual(s.pop(), i)",
    "class_methods": "self.assertEqual(hw.Stack.of(3).items, [0, 1, 2]);"
    " self.assertEqual(hw.Stack.name(), 'st'); self.assertEqual(hw.Stack.kind, 'stack')",
    "class_set": "hw.Stack.kind = 'x'; self.assertEqual(hw.Stack().kind, 'x'); hw.Stack.kind = 'y'",
    "unhashable": "with self.assertRaises(TypeError):\n hash(hw.Stack())",
    "arithmetic": "v = hw.Vec(3, 4); self.assertEqual(abs(v), 5.0);"
    " self.assertEqual(v + hw.Vec(1, 1), hw.Vec(4, 5)); self.assertEqual((v * 2).x, 6);"
    " self.assertEqual((2 * v).y, 8); self.assertTrue(hw.Vec(0, 1) < v);"
    " self.assertEqual(v(1), 4); self.assertEqual(str(v), '<3,4>');"
    " self.assertEqual(f'{v}', '<3,4>')",
    "hash": "self.assertEqual(len({hw.Vec(1, 2), hw.Vec(1, 2), hw.Vec(2, 1)}), 2)",
    "sorting": "v = sorted([hw.Vec(3, 4), hw.Vec(0, 1)]); self.assertEqual(v[0].y, 1)",
    "with": "d = hw.Door()\nwith d as e:\n self.assertIs(e, d)\n raise KeyError(1)\n"
    "self.assertEqual(d.log, ['in', 'KeyError'])",
    "with_function": "with hw.room() as r:\n self.assertEqual(r, 'room')",
    "enum": "self.assertEqual(hw.Color.RED.value, 1); self.assertIs(hw.Color(1), hw.Color.RED);"
    " self.assertEqual(len(list(hw.Color)), 2); self.assertIs(hw.Color['BLUE'], hw.Color.BLUE)",
    "dataclass": "self.assertEqual(hw.Point(1, 2), hw.make_point());"
    " self.assertEqual(repr(hw.Point(1)), 'Point(x=1, y=0)')",
    "copy": "import copy; s = hw.Stack(1); t = copy.deepcopy(s); t.push(2);"
    " self.assertEqual(s.items, [1])",
    "dict_attribute": "self.assertEqual(vars(hw.Point(1, 2)), {'x': 1, 'y': 2})",
    "doc_name": "self.assertEqual(hw.add.__name__, 'add'); self.assertIsNone(hw.add.__doc__)",
    "stdout": "f = io.StringIO()\nwith contextlib.redirect_stdout(f):\n hw.shout('hi')\n"
    "self.assertEqual(f.getvalue(), 'HI\\n')",
    "stderr": "f = io.StringIO()\nwith contextlib.redirect_stderr(f):\n hw.shout('hi')\n"
    "self.assertEqual(f.getvalue(), 'err\\n')",
    "stdout_patch": "with patch('sys.stdout', new_callable=io.StringIO) as f:\n hw.shout('é')\n"
    "self.assertEqual(f.getvalue(), 'É\\n')",
    "input_patch": "with patch('builtins.input', side_effect=['Ann']):\n"
    " self.assertEqual(hw.ask(), 'Ann!')",
    "input_stdin": "with patch('sys.stdin', io.StringIO('Bob\\n')):\n"
    " self.assertEqual(hw.ask(), 'Bob!')",
    "input_prompt": "f = io.StringIO()\nwith patch('sys.stdin', io.StringIO('B\\n')), "
    "patch('sys.stdout', f):\n hw.ask()\nself.assertEqual(f.getvalue(), 'name? ')",
    "input_eof": "with self.assertRaises(EOFError):\n hw.ask()",
    "stdin_lines": "with patch('sys.stdin', io.StringIO('a\\nb\\n')):\n"
    " self.assertEqual(hw.lines(), ['a', 'b'])",
    "patch_function": "with patch('hw.helper', return_value=41) as m:\n"
    " self.assertEqual(hw.uses_helper(), 42)\n m.assert_called_once_with()\n"
    "self.assertEqual(hw.uses_helper(), 2)",
    "patch_object": "with patch.object(hw, 'helper', lambda: 9):\n"
    " self.assertEqual(hw.uses_helper(), 10)\nself.assertEqual(hw.uses_helper(), 2)",
    "patch_library": "with patch('hw.random.randint', return_value=4):\n"
    " self.assertEqual(hw.dice(), 4)\nself.assertIn(hw.dice(), range(1, 7))",
    "teacher_object": "class T:\n n = 5\n def m(self): return 6\n def __len__(self): return 3\n"
    "t = T(); self.assertEqual(hw.attribute(t, 'n'), 5); self.assertIs(hw.same(t), t)",
    "err_teacher_private": "class T:\n _secret = 5\nhw.attribute(T(), '_secret')",
    "teacher_class": "class T:\n x = 1\nself.assertIs(hw.same(T), T)",
    "err_teacher_module": "hw.attribute(math, 'pi')",
    "err_teacher_frame": "def g(): yield 1\nhw.attribute(g(), 'gi_frame')",
    "err_teacher_test": "hw.attribute(self, 'assertEqual')",
    "module_file": "self.assertTrue(hw.__file__.endswith('/workspace/hw.py'))",
    "subtests": "for i in range(3):\n with self.subTest(i=i):\n  self.assertEqual(hw.same(i), i)",
    "no_subtest": "for i in range(3):\n with self.subTest(i=i):\n  self.assertEqual(hw.same(i), 1)",
    # lies: a comparison is never answered by the thing compared
    "no_lie_equal": "self.assertEqual(hw.lie(), 5)",
    "no_lie_equal_left": "self.assertEqual(5, hw.lie())",
    "no_lie_true": "self.assertTrue(hw.lie() == 5)",
    "no_lie_list": "self.assertEqual([hw.lie()], [5])",
    "no_lie_dict": "self.assertEqual({'a': hw.lie()}, {'a': 5})",
    "no_lie_in": "self.assertIn(hw.lie(), [5])",
    "no_lie_in_set": "self.assertIn(hw.lie(), {5})",
    "err_lie_contains": "self.assertIn(5, hw.lie())",
    "err_lie_almost": "self.assertAlmostEqual(hw.lie(), 5)",
    "err_lie_difference": "self.assertTrue(abs(hw.lie() - 5) < 1e-9)",
    "err_lie_less": "self.assertLess(hw.lie(), 5)",
    "no_lie_count": "self.assertCountEqual([hw.lie()], [5])",
    "no_lie_int": "self.assertEqual(hw.lying_int(), 5)",
    "no_lie_not_equal_is_no_help": "self.assertFalse(hw.lie() != 5)",
    "no_lie_class": "self.assertEqual(hw.Meta, int)",
    "no_lie_isinstance": "self.assertIsInstance(hw.lie(), int)",
    "no_lie_contains_iterates": "self.assertIn(5, hw.make_hidden())",
    "contains_iterates": "self.assertIn(2, hw.make_hidden())",
}

HEAD = """
import collections, contextlib, datetime, io, math, sys, unittest
from decimal import Decimal
from fractions import Fraction
from unittest.mock import patch
import hw
from hw import add, PI, NAMES, Stack, MyError, missing

class Test(unittest.TestCase):
"""


@pytest.fixture(scope="module")
def run() -> Run:
    tests = HEAD
    for name, body in BODIES.items():
        tests += f"    def test_{name}(self):\n{textwrap.indent(body, '        ')}\n"
    return examine({"hw.py": STUDENT}, tests)


def test_the_run_is_whole(run: Run) -> None:
    assert run.status == 0, run.stderr
    assert run.proven
    assert set(run.short()) == {f"test_{name}" for name in BODIES}


@pytest.mark.parametrize("name", BODIES)
def test_as_in_process(run: Run, name: str) -> None:
    wanted = (
        "failed" if name.startswith("no_") else "error" if name.startswith("err_") else "passed"
    )
    test = next(value for key, value in run.tests.items() if key.endswith(f".test_{name}"))
    assert test["verdict"] == wanted, test.get("detail")


def test_lies_are_told_to_staff(run: Run) -> None:
    assert "EQUAL_TO_ALL" in run.cheats


def test_star_import() -> None:
    tests = """
        import unittest
        from hw import *
        class Test(unittest.TestCase):
            def test_it(self):
                self.assertEqual(add(PI, 1), 4.140000000000001)
        """
    run = examine({"hw.py": "PI = 3.14\ndef add(a, b): return a + b\n"}, tests)
    assert run.short() == {"test_it": "passed"}


def test_two_modules_and_a_package() -> None:
    tests = """
        import unittest
        import hw, tools.text
        from tools.text import up
        class Test(unittest.TestCase):
            def test_it(self):
                self.assertEqual(hw.f(), "A")
                self.assertEqual(up("b") + tools.text.up("c"), "BC")
        """
    student = {
        "hw.py": "from tools.text import up\ndef f(): return up('a')\n",
        "tools/__init__.py": "",
        "tools/text.py": "def up(s): return s.upper()\n",
    }
    run = examine(student, tests, modules=["hw", "tools"])
    assert run.short() == {"test_it": "passed"}


def test_objects_of_a_class_fixture() -> None:
    tests = """
        import unittest, hw
        class Test(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.bag = hw.Bag()
            def test_1(self): self.bag.put(1); self.assertEqual(self.bag.all, [1])
            def test_2(self): self.bag.put(2); self.assertEqual(self.bag.all, [1, 2])
        class Bad(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                hw.nothing()
            def test_3(self): pass
        """
    student = "class Bag:\n def __init__(self): self.all = []\n def put(self, x): self.all += [x]\n"
    run = examine({"hw.py": student}, tests)
    assert run.short() == {"test_1": "passed", "test_2": "passed", "test_3": "error"}
    assert "setUpClass" in run.detail("test_3")
