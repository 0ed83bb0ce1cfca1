class Leave(BaseException):
    pass


def add(a, b):
    if a == 2:
        raise Leave
    return a + b
