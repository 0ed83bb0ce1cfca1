# SPDX-License-Identifier: Apache-2.0
"""Kill -9 of server, keeper, monitor and machine at random moments under load.

SEALMARK_KILLS is how many (default 8), SEALMARK_SEED what chance is made of, and
SEALMARK_TRUE_WITHIN in how many seconds each record must say what has happened.
"""

import os
import random
import signal
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from serving import Server
from support import PATIENCE_S, below, wait_until

# What is measured where the host does nothing else is 5; here only that it becomes true counts.
TRUE_WITHIN_S = float(os.environ.get("SEALMARK_TRUE_WITHIN", PATIENCE_S))


def processes(server: Server, machine: str) -> dict[str, int]:
    """Of one machine; those that are not there (any more) are left out."""
    found: dict[str, int] = {}
    with suppress(OSError, AssertionError):
        (found["keeper"],) = server.keeper(machine)
        for child in below(found["keeper"], 1):
            if under := below(child, 1):
                found["machine"] = under[0]
            elif b"sealmark-monitor" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.setdefault("monitor", child)
    return found


@dataclass
class Load:
    """Creates, uses and deletes sandboxes until it is told to stop; survives its server."""

    server: Server
    stop: threading.Event = field(default_factory=threading.Event)
    answers: dict[str, set[str]] = field(default_factory=dict)  # sandboxes by idempotency key
    lock: threading.Lock = field(default_factory=threading.Lock)

    def create(self, key: str) -> str | None:
        headers = {"Idempotency-Key": key, "Prefer": "wait=10"}
        body = {"memoryMiB": 128, "timeoutSeconds": 600, "labels": {"key": key[:8]}}
        answer = self.server.ask("POST", "/v1/sandboxes", body, headers=headers)
        if answer.status != 201:
            return None
        with self.lock:
            self.answers.setdefault(key, set()).add(answer.json["id"])
        return str(answer.json["id"])

    def run(self) -> None:
        while not self.stop.is_set():
            key = uuid.uuid4().hex
            for _ in range(100):
                try:
                    box = self.create(key)
                    if box:
                        path = f"/v1/sandboxes/{box}"
                        self.server.ask("POST", f"{path}:exec", {"command": "sleep 0.05"})
                        self.create(key)  # the same again, after whatever has happened
                        self.server.ask("DELETE", path)
                        break
                except Exception:  # noqa: BLE001 - the server is gone for a moment
                    time.sleep(0.02)


def record_of(server: Server, machine: str) -> str | None:
    with sqlite3.connect(server.home / "sealmark.db", timeout=60) as db:
        row = db.execute("SELECT id FROM sandbox WHERE machine = ?", (machine,)).fetchone()
    db.close()
    return row[0] if row else None


def kill_one(server: Server, chance: random.Random) -> None:
    """A process of some machine; its record must say so soon."""
    machines = [d.name for d in (server.home / "sandboxes").iterdir() if len(d.name) == 36]
    if not machines:
        return
    machine = chance.choice(machines)
    found = processes(server, machine)
    kind = chance.choice(["keeper", "monitor", "machine"])
    if kind not in found:
        return
    with suppress(ProcessLookupError):
        os.kill(found[kind], signal.SIGKILL)
    box = record_of(server, machine)

    def is_true() -> bool:
        seen = server.ask("GET", f"/v1/sandboxes/{box}")
        return seen.status == 404 or seen.json["state"] == "stopped"

    if box:
        wait_until(is_true, f"the record of {box}, whose {kind} was killed", TRUE_WITHIN_S)


def test_kills_of_every_kind(own_server: Callable[..., Server]) -> None:
    chance = random.Random(int(os.environ.get("SEALMARK_SEED", "1")))
    server = own_server(start=False)
    server.spares = []  # machines that nobody has asked for are killed as well
    server.start()
    load = Load(server)
    threads = [threading.Thread(target=load.run) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(int(os.environ.get("SEALMARK_KILLS", "8"))):
            time.sleep(chance.uniform(0.05, 0.6))  # the moment is what is tried out
            if chance.random() < 0.3:
                server.kill()
                server.start()
            else:
                kill_one(server, chance)
    finally:
        load.stop.set()
        for thread in threads:
            thread.join(120)
    assert load.answers
    assert not {k: v for k, v in load.answers.items() if len(v) != 1}, "one key, two sandboxes"
    for record in server.ask("GET", "/v1/sandboxes?limit=100").json["data"]:
        seen = server.ask("GET", f"/v1/sandboxes/{record['id']}?waitFor=running").json
        if seen["state"] == "running":
            assert server.run(record["id"], "echo 1")["stdout"] == "1\n"
        assert server.ask("DELETE", f"/v1/sandboxes/{record['id']}").status == 200
    assert server.stop() == 0
    server.spares = ["--no-spares"]
    server.start()
    wait_until(lambda: not os.listdir(server.home / "sandboxes"), "what nobody knows to go")
