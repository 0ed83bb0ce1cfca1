# SPDX-License-Identifier: Apache-2.0
"""What a new sandbox can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict


class SandboxOptions(TypedDict, total=False):
    """What a new sandbox is to be. What is left out is the server's default."""

    labels: Mapping[str, str]
    env: Mapping[str, str]
    """Variables of all its commands; never shown again."""
    vcpu: int
    memory_mib: int
    disk_mib: int
    cpu: Literal["shared", "reserved"]
    cpu_floor_millis: int
    timeout_seconds: int
    """The lease; it ends then, whatever happens."""
    on_lease_end: Literal["pause", "stop", "delete"]
    pausable: bool
    idle_pause_seconds: int
    auto_wake: bool
    persistent: bool
    max_cost_micros: int
    """Refuse if the first lease could cost more, in millionths of a dollar."""
    max_total_cost_micros: int
    network: Mapping[str, Any]
    """`{"internet": bool, "allow": [...], "deny": [...]}`"""
    image: str
    snapshot: str
    user: Literal["sandbox", "root"]
    region: str


class CreateOptions(SandboxOptions, total=False):
    """The same with a name."""

    name: str
    """Unique among the sandboxes that can run."""
