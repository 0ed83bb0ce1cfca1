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
    """Processors, 1 to 16; 2 by default."""
    memory_mib: int
    """128 to 65,536; 4,096 by default."""
    disk_mib: int
    """What it may write; 4,096 by default."""
    cpu: Literal["shared", "reserved"]
    """"reserved" has every processor to itself, and pays for all of its time."""
    cpu_floor_millis: int
    """The least that is paid of a shared processor, in thousandths of one; 50 by default."""
    timeout_seconds: int
    """The lease, at least 60; 1,800 by default. It ends then, whatever happens."""
    on_lease_end: Literal["pause", "stop", "delete"]
    """"pause" by default, if it can be paused."""
    pausable: bool
    idle_pause_seconds: int
    """Without a command for so long it is paused; 60 by default, 0 for never."""
    auto_wake: bool
    """Whether a command wakes it; true by default."""
    persistent: bool
    """The lease renews itself."""
    max_cost_micros: int
    """Refuse if the first lease could cost more, in millionths of a dollar."""
    max_total_cost_micros: int
    network: Mapping[str, Any]
    """`{"internet": bool, "allow": [...], "deny": [...]}`"""
    image: str
    """Id, name, `name:tag` or `name@version`."""
    snapshot: str
    user: Literal["sandbox", "root"]
    region: str


class CreateOptions(SandboxOptions, total=False):
    """The same with a name."""

    name: str
    """Unique among the sandboxes that can run."""
