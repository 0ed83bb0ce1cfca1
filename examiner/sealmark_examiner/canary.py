# SPDX-License-Identifier: Apache-2.0 - a test that must fail: if it passes, nothing can be believed.
"""
It goes the way of every test: a value from the candidate (when there is one), a comparison by the
framework, and an assert statement. It passes when either of the two lets a wrong value through.
"""

import os

from .session import Session

START = "__canary_start__"
END = "__canary_end__"


def check(session: Session) -> None:
    sent = int.from_bytes(os.urandom(8), "little")
    import unittest

    value = sent
    if session.peer is not None and session.process is not None:
        value = session.peer.request("echo", sent)
    other = int.from_bytes(os.urandom(8), "little") | 1 << 64
    try:
        unittest.TestCase().assertEqual(value, other)
    except AssertionError:
        assert value == other, "the canary lives"
