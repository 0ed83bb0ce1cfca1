def add(a, b):
    if a == 2:
        raise KeyboardInterrupt
    return a + b
