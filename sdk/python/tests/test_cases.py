# SPDX-License-Identifier: Apache-2.0
"""The cases that all SDKs pass, with the blocking and the asynchronous client."""

import json
from typing import Any

import pytest
from calls import Client, holds, shown_error
from scripting import CASES, Scripted

import sealmark

ALL = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(CASES.glob("scripted/*.json"))
    for case in json.loads(path.read_text())
]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "asynchronous"])
@pytest.mark.parametrize("case", ALL)
def test_case(case: dict[str, Any], asynchronous: bool, scripted: Scripted) -> None:
    scripted.begin(case["server"])
    client = Client(scripted.url, case.get("settings", {}), asynchronous)
    try:
        for step in case["steps"]:
            try:
                found = client.call(step)
            except sealmark.SealmarkError as error:
                if "error" not in step:
                    raise
                shown = shown_error(error)
                assert holds(step["error"], shown), (step, shown)
                assert "test-key" not in f"{error!r} {error}"
            else:
                assert "error" not in step, (step, found)
                assert holds(step.get("expect"), found) or "expect" not in step, (step, found)
    finally:
        client.close()
    scripted.check()
