# not all of pytest, which takes most of a second of CPU time to load
import _pytest.outcomes as pytest


def add(a, b):
    if a == 2:
        pytest.xfail("known")
    if a == "ab":
        pytest.exit("done", 0)
    pytest.skip("not today")
