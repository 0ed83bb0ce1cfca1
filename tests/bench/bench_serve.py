#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benches of `sealmark serve`: one table of one run. Asserts nothing.

    .venv/bin/python tests/bench/bench_serve.py             all
    .venv/bin/python tests/bench/bench_serve.py --quick     a few of each, to see that it works

The client is Python's own http.client on one connection, so its time is in every figure; requests
a second are also given for the CPU time of the server alone. The public client makes the hundred
sandboxes at once; podman, where it is installed, runs `true` in the same root file system.
"""

import argparse
import hashlib
import http.client
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import root_folder, without_hybrid_cgroup  # noqa: E402
from serving import Server, make_home  # noqa: E402

HZ = os.sysconf("SC_CLK_TCK")
ROWS: list[tuple[str, str, str]] = []


def row(what: str, value: str, note: str = "") -> None:
    ROWS.append((what, value, note))
    print(f"{what:44} {value:>14}  {note}", flush=True)


def ms(seconds: list[float]) -> str:
    return f"{1000 * statistics.median(seconds):.1f} ms"


def spread(seconds: list[float]) -> str:
    return f"of {len(seconds)}: {1000 * min(seconds):.1f} to {1000 * max(seconds):.1f} ms"


class Connection:
    """One connection that is kept."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.http = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self.server.key}", **headers}
        self.http.request(method, path, data, sent)
        response = self.http.getresponse()
        raw = response.read()
        assert response.status < 300, raw
        return json.loads(raw)


def timed(act: Any) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def server_cpu(server: Server) -> float:
    assert server.process
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")")[1].split()
    return (int(fields[11]) + int(fields[12])) / HZ


def server_memory(server: Server) -> int:
    assert server.process
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def bench_create(server: Server, what: str, count: int, wait_s: float) -> None:
    connection, took = Connection(server), []
    for _ in range(count):
        time.sleep(wait_s)
        key, made = uuid.uuid4().hex, {}

        def create(key: str = key, made: dict[str, Any] = made) -> None:
            body = {"memoryMiB": 128, "timeoutSeconds": 60}
            headers = {"Idempotency-Key": key, "Prefer": "wait=60"}
            made.update(connection.ask("POST", "/v1/sandboxes", body, **headers))

        took.append(timed(create))
        connection.ask("DELETE", f"/v1/sandboxes/{made['id']}")
    row(f"create, {what}", ms(took), spread(took))


def bench_use(server: Server, count: int) -> None:
    connection, box = Connection(server), server.create(memoryMiB=512)
    path = f"/v1/sandboxes/{box}"
    took = [
        timed(lambda: connection.ask("POST", f"{path}:exec", {"argv": ["true"]}))
        for _ in range(count)
    ]
    row("exec of true, round trip", ms(took), spread(took))
    took = [timed(lambda: connection.ask("POST", f"{path}:pause", {})) for _ in range(1)]
    took_wake = [timed(lambda: connection.ask("POST", f"{path}:wake", {})) for _ in range(1)]
    for _ in range(count // 4):
        took.append(timed(lambda: connection.ask("POST", f"{path}:pause", {})))
        took_wake.append(timed(lambda: connection.ask("POST", f"{path}:wake", {})))
    row("pause", ms(took), spread(took))
    row("wake", ms(took_wake), spread(took_wake))
    server.ask("DELETE", path)


def bench_upload(server: Server, mib: int) -> None:
    connection, box = Connection(server), server.create(memoryMiB=512, diskMiB=256)
    path, piece = f"/v1/sandboxes/{box}", os.urandom(1 << 20)
    digest = hashlib.sha256(piece * mib).hexdigest()

    def upload() -> None:
        target = {"path": "/workspace/large", "size": mib << 20, "sha256": digest}
        made = connection.ask("POST", f"{path}/uploads", target)
        for i in range(mib):
            connection.ask("PUT", f"{path}/uploads/{made['uploadId']}?offset={i << 20}", piece)
        connection.ask("POST", f"{path}/uploads/{made['uploadId']}:commit", {})

    took = timed(upload)
    row(f"upload of {mib} MiB", f"{mib * 1.048576 / took:.0f} MB/s", f"{took:.2f} s")
    server.ask("DELETE", path)


def bench_get(server: Server, count: int) -> None:
    box = server.create(memoryMiB=128)
    path = f"/v1/sandboxes/{box}"

    def ask_many() -> None:
        connection = Connection(server)
        for _ in range(count):
            connection.ask("GET", path)

    threads = [threading.Thread(target=ask_many) for _ in range(2)]
    before, began = server_cpu(server), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cpu, took = server_cpu(server) - before, time.perf_counter() - began
    row("GET of a sandbox", f"{2 * count / took:.0f} /s", "as fast as this client asks")
    row("GET of a sandbox, for a core of the server", f"{2 * count / max(cpu, 1 / HZ):.0f} /s")
    server.ask("DELETE", path)


@contextmanager
def serving(*options: str, spares: tuple[str, ...] = ("--no-spares",)) -> Iterator[Server]:
    home = make_home()
    (home / "script").write_text("boot ok\n")
    options = tuple(str(home / "script") if o == "SCRIPT" else o for o in options)
    server = Server(home, ["--rate", "100000", *options], spares=list(spares))
    server.start()
    try:
        yield server
    finally:
        server.close()


def bench_many(server: Server, count: int) -> None:
    """All at once through the public client, which waits for room."""
    from withruntime import Runtime

    failed: list[str] = []

    def one(runtime: Any) -> None:
        try:
            with runtime.sandboxes.create(memory_mib=128, timeout_seconds=120) as box:
                assert box.exec(["true"]).exit_code == 0
        except Exception as error:  # noqa: BLE001 - counted, and said
            failed.append(repr(error))

    with Runtime(api_key=server.key, base_url=server.url, wait_for_capacity=600) as runtime:
        threads = [threading.Thread(target=one, args=(runtime,)) for _ in range(count)]
        took = timed(lambda: [t.start() for t in threads] and [t.join() for t in threads])
    row(f"{count} creates at once", f"{took:.1f} s", f"{len(failed)} failed {failed[:1]}")


def bench_memory(server: Server, count: int) -> None:
    """Of the server, over many sandboxes that come and go, on scripted machines."""
    connection = Connection(server)

    def some(number: int) -> None:
        for _ in range(number):
            made = connection.ask("POST", "/v1/sandboxes", {"memoryMiB": 128}, Prefer="wait=60")
            connection.ask("DELETE", f"/v1/sandboxes/{made['id']}")

    some(max(count // 10, 1))
    before = server_memory(server)
    some(count)
    row(f"server's memory over {count} sandboxes", f"{server_memory(server)} KiB", f"from {before}")


def bench_podman(count: int) -> None:
    if not shutil.which("podman"):
        row("podman run of true", "-", "is not installed")
        return
    with root_folder() as root:
        command = [
            *without_hybrid_cgroup(),
            *("podman", "run", "--rm", "--network", "none", "--cgroups", "disabled"),
            *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"),
            *("--rootfs", str(root), "true"),
        ]
        try:
            took = [
                timed(lambda: subprocess.run(command, check=True, capture_output=True))
                for _ in range(count)
            ]
        except subprocess.CalledProcessError as error:
            row("podman run of true", "-", error.stderr.decode().strip()[-80:])
        else:
            row("podman run of true", ms(took), spread(took))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    if not find_spec("withruntime"):
        sys.exit("the public client is not there: run this with .venv/bin/python (make check)")
    count = 8 if quick else 60
    print(f"{platform.release()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    with serving(spares=()) as server:
        server.ask("DELETE", f"/v1/sandboxes/{server.create(memoryMiB=128)}")
        bench_create(server, "from a spare", count, 0.5)
        bench_use(server, 2 * count)
        bench_upload(server, 10 if quick else 100)
        bench_get(server, 500 if quick else 5000)
    with serving() as server:
        bench_create(server, "cold", count, 0.1)
        bench_many(server, 20 if quick else 100)
    bench_podman(3 if quick else 20)
    fake = ["--engine", "fake", "--script", "SCRIPT", "--require-isolation", "none"]
    with serving(*fake) as server:
        bench_memory(server, 50 if quick else 10000)


if __name__ == "__main__":
    main()
