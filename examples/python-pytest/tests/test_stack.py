"""Tests of a stack, written for pytest."""
import pytest

from stack import Stack, balanced


@pytest.fixture
def stack():
    return Stack()


def test_push_and_pop(stack):
    stack.push(1)
    stack.push(2)
    assert stack.pop() == 2
    assert stack.pop() == 1


def test_length(stack):
    assert len(stack) == 0
    stack.push("x")
    assert len(stack) == 1


def test_pop_of_an_empty_one(stack):
    with pytest.raises(IndexError, match="empty"):
        stack.pop()


@pytest.mark.parametrize(
    "text, answer",
    [("", True), ("()", True), ("(]", False), ("([]{})", True), ("((", False)],
)
def test_balanced(text, answer):
    assert balanced(text) is answer


def test_show(stack, capsys):
    stack.push(7)
    stack.show()
    assert capsys.readouterr().out == "7\n"
