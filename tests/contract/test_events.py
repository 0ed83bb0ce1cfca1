# SPDX-License-Identifier: Apache-2.0
"""What has happened to sandboxes, and what they used over time."""

from typing import Any

from serving import Server


def test_what_has_happened_is_told(server: Server, runtime: Any) -> None:
    with runtime.sandboxes.create(memory_mib=128, timeout_seconds=300) as box:
        box.pause()
        box.wake()
        box.extend(60)
        box.update(labels={"a": "b"})
    page = runtime.events.list(resource_id=box.id)
    assert [e["type"] for e in page["data"]] == [
        "sandbox.deleted",
        "sandbox.stopped",
        "sandbox.updated",
        "sandbox.extended",
        "sandbox.woken",
        "sandbox.paused",
        "sandbox.started",
        "sandbox.created",
    ]
    assert page["nextCursor"] is None
    assert {e["resourceId"] for e in page["data"]} == {box.id}
    assert page["data"][1]["data"] == {"stopReason": "requested"}
    times = [e["createdAt"] for e in page["data"]]
    assert times == sorted(times, reverse=True)
    # in pages, each of which goes on where the one before has ended
    seen: list[Any] = []
    cursor = None
    while True:
        part = runtime.events.list(resource_id=box.id, limit=3, cursor=cursor)
        seen += part["data"]
        cursor = part["nextCursor"]
        if cursor is None:
            break
    assert seen == page["data"]
    only = runtime.events.list(resource_id=box.id, type="sandbox.paused")["data"]
    assert [e["type"] for e in only] == ["sandbox.paused"]


def test_other_keys_do_not_see_it(server: Server) -> None:
    other = server.make_key()
    assert server.ask("GET", "/v1/events", key=other).json == {"data": [], "nextCursor": None}
    assert server.ask("GET", "/v1/events?cursor=x").code == "invalid_request"


def test_what_it_used_over_time(server: Server, runtime: Any) -> None:
    with runtime.sandboxes.create(memory_mib=256, timeout_seconds=300) as box:
        box.exec("python3 -c 'sum(range(3000000))'")
        metrics = box.metrics(range="15m")
        assert (metrics["range"], metrics["stepSeconds"], metrics["vcpu"]) == ("15m", 10, 1)
        assert metrics["memoryLimitBytes"] == 256 << 20
        assert metrics["latest"] == metrics["points"][-1]
        assert metrics["latest"]["cpuCores"] > 0
        assert 0 < metrics["latest"]["memoryBytes"] < 512 << 20
        assert box.metrics(range="24h")["stepSeconds"] == 60
        box.pause()  # asking does not wake it
        assert box.metrics()["range"] == "1h"
        assert box.refresh().state == "paused"
        box.stop()
        assert box.metrics()["points"] == []
    wrong = server.ask("GET", f"/v1/sandboxes/{box.id}/metrics?range=1y")
    assert wrong.code == "invalid_request"
