# SPDX-License-Identifier: Apache-2.0
"""Plays a case: its steps, one after the other, each with what must come of it."""

from typing import Any

from calls import Client, holds, shown_error

import sealmark


def play(case: dict[str, Any], url: str, asynchronous: bool, key: str = "test-key") -> None:
    client = Client(url, case.get("settings", {}), asynchronous, key)
    try:
        for step in case["steps"]:
            try:
                found = client.call(step)
            except sealmark.SealmarkError as error:
                if "error" not in step:
                    raise
                shown = shown_error(error)
                assert holds(step["error"], shown), (step, shown)
                assert key not in f"{error!r} {error}"
            else:
                assert "error" not in step, (step, found)
                assert "expect" not in step or holds(step["expect"], found), (step, found)
    finally:
        client.close()
