import time


def add(a, b):
    if a == 2:
        print("so far", flush=True)
        time.sleep(10**9)
    return a + b
