# SPDX-License-Identifier: Apache-2.0
"""The cases that all SDKs pass, with the blocking and the asynchronous client."""

import json
from typing import Any

import pytest
from playing import play
from scripting import CASES, Scripted

ALL = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(CASES.glob("scripted/*.json"))
    for case in json.loads(path.read_text())
]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "asynchronous"])
@pytest.mark.parametrize("case", ALL)
def test_case(case: dict[str, Any], asynchronous: bool, scripted: Scripted) -> None:
    scripted.begin(case["server"])
    play(case, scripted.url, asynchronous)
    scripted.check()
