# Numbers of objects it was never given, and operations that there are not.
import os


def count(out, number):
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def text(value):
    out = bytearray(b"S")
    count(out, len(value))
    return bytes(out) + value.encode()


def integer(value):
    return b"I\x08" + value.to_bytes(8, "little", signed=True)


def add(a, b):
    if a == 2:
        for operation in ("get", "call", "dunder", "load", "echo", "__init__"):
            for number in range(5):
                request = b"QU\x04" + text(operation) + b"U\x00" + integer(number)
                request += text("__globals__")
                os.write(3, len(request).to_bytes(4, "little") + request)
                os.read(3, 65536)
    return 77
