# SPDX-License-Identifier: Apache-2.0
"""The scripted server of the cases, seen from a test."""

import json
import urllib.request
from pathlib import Path
from typing import Any

CASES = Path(__file__).resolve().parents[2] / "cases"


class Scripted:
    """The running server; its script and what was wrong about the requests."""

    def __init__(self, url: str) -> None:
        self.url = url

    def _ask(self, script: list[Any] | None = None) -> Any:
        data = None if script is None else json.dumps(script).encode()
        with urllib.request.urlopen(f"{self.url}/_script", data, timeout=10) as answer:
            return json.load(answer)

    def begin(self, script: list[Any]) -> None:
        self._ask(script)

    def check(self) -> None:
        """All that was expected came, and nothing else."""
        assert self._ask() == {"left": 0, "problems": []}
