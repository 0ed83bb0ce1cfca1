# SPDX-License-Identifier: Apache-2.0
"""A copy of the store that is made while the server works, and put back as the manual says."""

import threading
from collections.abc import Callable
from pathlib import Path

from serving import Server


def test_a_store_is_copied_and_put_back(own_server: Callable[..., Server], tmp_path: Path) -> None:
    server = own_server()
    box = server.create()
    copies = [tmp_path / f"{i}.db" for i in range(3)]
    enough = threading.Event()
    statuses: list[int] = []

    def write() -> None:
        while not enough.is_set():
            body = {"labels": {"n": str(len(statuses))}}
            statuses.append(server.ask("POST", f"/v1/sandboxes/{box}:update", body).status)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    try:
        done = [server.command("backup", str(copy)) for copy in copies]
    finally:
        enough.set()
        for writer in writers:
            writer.join()
    assert [d.returncode for d in done] == [0, 0, 0], [d.stderr for d in done]
    assert set(statuses) == {200}

    later = server.make_key()
    assert server.ask("GET", "/v1/me", key=later).status == 200
    assert server.ask("POST", f"/v1/sandboxes/{box}:stop").status == 200
    server.stop()
    store = server.home / "sealmark.db"
    for name in ("sealmark.db-wal", "sealmark.db-shm"):
        (server.home / name).unlink(missing_ok=True)
    store.write_bytes(copies[-1].read_bytes())
    server.start()
    assert server.ask("GET", "/v1/me", key=later).status == 401
    record = server.stopped(box)
    assert record["stopReason"] in ("host_lost", "requested")  # if its end is still told
    assert record["labels"].keys() == {"n"}
    assert server.command("audit").returncode == 0
    assert server.run(server.create(), "echo on")["stdout"] == "on\n"
