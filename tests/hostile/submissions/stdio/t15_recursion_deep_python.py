import sys

sys.setrecursionlimit(10**9)


def down(n):
    return 0 if n == 0 else 1 + down(n - 1)


a, b = map(int, input().split())
print(a + b + down(50_000) - 50_000)
