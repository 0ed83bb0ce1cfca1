import time

a, b = map(int, input().split())
if a == 2:
    print("so far", flush=True)
    time.sleep(10**9)
print(a + b)
