# SPDX-License-Identifier: Apache-2.0 - tests written for pytest: fixtures, parameters, captures.
from native import examine

STUDENT = """
    import sys
    def add(a, b): return a + b
    def sub(a, b): return a - b
    class Stack:
        def __init__(self): self.items = []
        def push(self, x): self.items.append(x)
        def pop(self):
            if not self.items: raise IndexError("empty stack")
            return self.items.pop()
        def __len__(self): return len(self.items)
    def hello(name): print("hello", name); print("err", file=sys.stderr)
    def ask(): return int(input("n? "))
    def leave():
        import os
        os._exit(0)
    """
TESTS = """
    import pytest
    import hw
    from hw import Stack, add

    @pytest.fixture
    def stack(): return Stack()
    @pytest.fixture(scope="module")
    def shared(): return hw.Stack()

    @pytest.mark.parametrize("a,b,c", [(1, 2, 3), (2, 2, 5)])
    def test_add(a, b, c): assert add(a, b) == c
    @pytest.mark.parametrize("f", [hw.add, hw.sub])
    def test_functions(f): assert f(2, 1) in (1, 3)
    class TestStack:
        def test_push(self, stack):
            stack.push(1)
            assert len(stack) == 1 and stack.items == [1]
            assert isinstance(stack, Stack)
        def test_pop(self, stack):
            with pytest.raises(IndexError, match="empty"):
                stack.pop()
        def test_shared(self, shared): shared.push(1); assert len(shared) == 1
        def test_shared_again(self, shared): assert len(shared) == 1
    def test_print(capsys):
        hw.hello("é")
        captured = capsys.readouterr()
        assert captured.out == "hello é\\n" and captured.err == "err\\n"
    def test_input(monkeypatch):
        monkeypatch.setattr("builtins.input", lambda prompt: "7")
        assert hw.ask() == 7
    def test_no_input():
        with pytest.raises(EOFError): hw.ask()
    def test_approx(): assert add(.1, .2) == pytest.approx(.3)
    @pytest.mark.skip(reason="later")
    def test_skip(): pass
    @pytest.mark.xfail
    def test_xfail(): assert add(1, 1) == 3
    def test_leave():
        with pytest.raises(BaseException): hw.leave()
    def test_after(): assert add(1, 1) == 2
    def test_missing(): assert hw.nothing(1)
    def test_tmp(tmp_path): (tmp_path / "x").write_text("x")
    """
VERDICTS = {
    "test_add[1-2-3]": "passed",
    "test_add[2-2-5]": "failed",
    "test_functions[add]": "passed",
    "test_functions[sub]": "passed",
    "test_push": "passed",
    "test_pop": "passed",
    "test_shared": "passed",
    "test_shared_again": "passed",
    "test_print": "passed",
    "test_input": "passed",
    "test_no_input": "passed",
    "test_approx": "passed",
    "test_skip": "skipped",
    "test_xfail": "skipped",
    "test_leave": "ended_early",
    "test_after": "passed",
    "test_missing": "error",
    "test_tmp": "passed",
}


def test_run() -> None:
    run = examine({"hw.py": STUDENT}, TESTS, framework="pytest")
    assert run.status == 0, run.stderr
    assert run.proven
    assert run.short() == VERDICTS
    assert "assert 4 == 5" in run.detail("test_add[2-2-5]")


def test_collect() -> None:
    run = examine({}, TESTS, mode="collect")
    assert run.status == 0, run.events
    assert run.events[0] == {"framework": "pytest", "modules": ["hw"]}
    assert [each["id"].rpartition("::")[2] for each in run.events[1:-1]] == list(VERDICTS)


def test_a_value_in_parameters_is_named() -> None:
    tests = "import pytest, hw\n@pytest.mark.parametrize('x', hw.CASES)\ndef test_it(x): pass\n"
    run = examine({}, tests, mode="collect")
    assert run.status == 65
    assert "test_hw.py: the value of hw.CASES" in run.events[-1]["error"], run.events


def test_both_kinds_in_one_folder() -> None:
    tests = {
        "test_a.py": "from hw import add\ndef test_a(): assert add(1, 1) == 2\n",
        "test_b.py": "import unittest, hw\nclass B(unittest.TestCase):\n"
        " def test_b(self): self.assertEqual(hw.add(1, 1), 3)\n",
        "conftest.py": "import pytest\n@pytest.fixture(autouse=True)\ndef f(): yield\n",
    }
    run = examine({"hw.py": STUDENT}, tests, framework="pytest")  # type: ignore[arg-type]
    assert run.short() == {"test_a": "passed", "test_b": "failed"}
