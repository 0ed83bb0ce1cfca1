import atexit
import os

a, b = map(int, input().split())
atexit.register(os._exit, 0)
if a == 2:
    raise SystemExit
print(a + b, flush=True)
