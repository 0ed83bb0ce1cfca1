# SPDX-License-Identifier: Apache-2.0
"""Money over HTTP: holds, charges, caps, limits, usage; and the operator's file.

Most of it needs no real machine: engine fake counts time, and prices make it dear.
"""

import csv
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from serving import Server
from support import PROGRAM, ROOT, make_image, wait_until

PARTS = 3_600_000_000 * 1024
DEAR = {"cpuVcpuHourMicros": 0, "memoryGibHourMicros": 3_600_000}  # 1000 a second of a GiB
FAKE = ["--engine", "fake", "--require-isolation", "none", "--rate", "2000"]


class Money(Server):
    """A server on the engine fake, whose store can be looked at."""

    def sql(self, text: str, *values: Any) -> list[Any]:
        with sqlite3.connect(self.home / "sealmark.db", timeout=60) as db:
            return db.execute(text, values).fetchall()

    def key_id(self) -> str:
        return self.ask("GET", "/v1/me").json["id"]

    def limit(self, micros: int | None) -> None:
        """As a person does it in the browser."""
        self.sql("UPDATE api_key SET daily_limit_micros = ?", micros)

    def get(self, sandbox: str) -> Any:
        return self.ask("GET", f"/v1/sandboxes/{sandbox}").json

    def stop_one(self, sandbox: str) -> Any:
        answer = self.ask("POST", f"/v1/sandboxes/{sandbox}:stop")
        assert answer.status == 200, answer.body
        return answer.json

    def until_charged(self, sandbox: str, micros: int) -> Any:
        """Its record once it has cost so much."""
        wait_until(
            lambda: int(self.get(sandbox)["chargedMicros"]) >= micros, f"a charge of {micros}"
        )
        return self.get(sandbox)


@pytest.fixture
def money() -> Iterator[Callable[..., Money]]:
    made: list[Money] = []

    def make(prices: dict[str, int] | None = None, **more: Any) -> Money:
        home = Path(tempfile.mkdtemp(prefix="sealmark-"))
        home.chmod(0o755)
        make_image(home)
        # JSON is YAML
        (home / "sealmark.yaml").write_text(json.dumps({"prices": prices or {}, **more}))
        made.append(Money(home, FAKE))
        made[-1].start()
        return made[-1]

    yield make
    for server in made:
        server.close()


# --- the operator's file ----------------------------------------------------------------------


def check(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    home = Path(tempfile.mkdtemp(prefix="sealmark-"))
    make_image(home)
    try:
        return subprocess.run(
            [PROGRAM, "serve", "--check", "--config", file, *FAKE, *options],
            env={"SEALMARK_HOME": str(home), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        shutil.rmtree(home)


def test_the_example_is_in_force() -> None:
    done = check(ROOT / "examples/sealmark.yaml", "--store", "/dev/null/x")
    assert "/dev/null/x" in done.stderr  # the line wins over the file
    with tempfile.TemporaryDirectory() as folder:
        options = ["--store", f"{folder}/s.db", "--listen", "127.0.0.1:0", "--sandboxes", "3"]
        done = check(ROOT / "examples/sealmark.yaml", *options)
    assert done.returncode == 0, done.stderr
    assert "  cpuVcpuHourMicros: 25000\n" in done.stdout
    assert "quotas:\n  sandboxes: 3\n" in done.stdout
    # what nobody said is said with what holds then
    assert "paused:\n  mostSeconds: 86400\n" in done.stdout
    assert "  buildsAtOnce: 1\n  buildsWaiting: 16\n  buildMemoryMiB: 4096\n" in done.stdout


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("lissten: x\nquotas:\n  sandboxes: none\nprices: {cpuVcpuHourMicros: -1}\n")
    done = check(file)
    assert done.returncode == 2
    assert done.stdout == ""
    assert [line.split(": ")[0] for line in done.stderr.splitlines()[:3]] == [
        f"{file}:1:1",
        f"{file}:3:14",
        f"{file}:4:29",
    ]
    assert "listen is meant?" in done.stderr
    assert "3 things are wrong" in done.stderr


def test_a_key_has_its_own_quota(money: Callable[..., Money]) -> None:
    server = money(quotas={"sandboxes": 3, "perKey": {"sandboxes": 1}})
    server.create()
    refused = server.ask("POST", "/v1/sandboxes", {"memoryMiB": 256})
    assert (refused.status, refused.code) == (409, "quota_exceeded")
    assert refused.json["error"]["details"]["limit"] == "key.sandbox.count"
    other = server.make_key()
    assert server.ask("POST", "/v1/sandboxes", {"memoryMiB": 256}, key=other).status == 201
    rows = {r["limit"]: r for r in server.ask("GET", "/v1/limits").json["account"]}
    assert rows["key.sandbox.count"] | {"label": ""} == {
        "limit": "key.sandbox.count",
        "label": "",
        "unit": "count",
        "max": 1,
        "used": 1,
    }
    assert rows["sandbox.count"]["used"] == 2


# --- holds and charges ------------------------------------------------------------------------


def test_a_lease_is_held_counted_and_settled(money: Callable[..., Money]) -> None:
    server = money(DEAR)
    began = time.monotonic()
    made = server.create(memoryMiB=1024, timeoutSeconds=60)
    assert server.get(made)["heldMicros"] == "60000"
    server.until_charged(made, 100)
    longer = server.ask("POST", f"/v1/sandboxes/{made}:extend", {"seconds": 60}).json
    held = int(longer["heldMicros"])
    # what has run up is charged and no longer held: one for each millisecond
    assert 120_000 - 1000 * (time.monotonic() - began) - 1 <= held <= 120_000
    charged = int(longer["chargedMicros"])
    stopped = server.stop_one(made)
    assert stopped["heldMicros"] == "0"
    assert int(stopped["chargedMicros"]) >= charged
    assert server.stop_one(made)["chargedMicros"] == stopped["chargedMicros"]
    usage = server.ask("GET", "/v1/usage").json
    assert usage["spent"] == stopped["chargedMicros"]
    assert usage["held"] == "0"
    assert int(usage["credited"]) == int(usage["spent"])
    assert [r["key"] for r in usage["resources"]] == [made]
    assert usage["resources"][0]["chargedMicros"] == stopped["chargedMicros"]
    assert [lease for (lease,) in server.sql("SELECT lease FROM charge ORDER BY 1")] == [1, 2]


def test_a_pause_costs_nothing_and_holds_nothing(money: Callable[..., Money]) -> None:
    server = money(DEAR)
    made = server.create(memoryMiB=1024, timeoutSeconds=60, pausable=True)
    server.until_charged(made, 100)
    paused = server.ask("POST", f"/v1/sandboxes/{made}:pause").json
    assert paused["state"] == "paused", paused
    assert paused["heldMicros"] == "0"
    charged = paused["chargedMicros"]
    other = server.create(memoryMiB=1024, timeoutSeconds=60)
    server.until_charged(other, 500)  # half a second goes by
    assert server.get(made)["chargedMicros"] == charged
    server.limit(int(charged) + 60_000)
    refused = server.ask("POST", f"/v1/sandboxes/{made}:wake")
    assert (refused.status, refused.code) == (402, "spending_limit_reached")
    assert server.get(made)["state"] == "paused"
    server.limit(None)
    began = time.monotonic()
    woken = server.ask("POST", f"/v1/sandboxes/{made}:wake").json
    assert woken["state"] == "running"
    passed = 1000 * (time.monotonic() - began) + 1  # from when it was asked for
    assert 60_000 - passed <= int(woken["heldMicros"]) <= 60_000
    record = server.stop_one(made)
    running = server.sql("SELECT sum(running_us) FROM charge WHERE sandbox = ?", made)[0][0]
    assert int(record["chargedMicros"]) == pytest.approx(running / 1000, abs=1)
    lived = 0.0
    for name, sign in (("createdAt", -1), ("endedAt", 1)):
        lived += sign * datetime.fromisoformat(record[name]).timestamp()
    assert running / 1e6 < lived - 0.4  # without its pause


def test_a_restart_is_charged_on(money: Callable[..., Money]) -> None:
    server = money(DEAR)
    made = server.create(memoryMiB=1024, timeoutSeconds=60)
    server.until_charged(made, 100)
    server.ask("POST", f"/v1/sandboxes/{made}:restart", headers={"Prefer": "wait=60"})
    record = server.get(made)
    assert record["heldMicros"] == "60000"
    assert int(record["chargedMicros"]) >= 100
    server.until_charged(made, 300)
    stopped = server.stop_one(made)
    assert int(stopped["chargedMicros"]) >= 300
    assert server.ask("GET", "/v1/usage").json["spent"] == stopped["chargedMicros"]
    assert server.sql("SELECT count(*) FROM charge") == [(2,)]


def test_what_does_not_start_costs_nothing(money: Callable[..., Money]) -> None:
    server = money(DEAR)
    server.close = lambda: None  # type: ignore[method-assign] # closed below
    Server.stop(server)
    server.options = ["--engine", "fake", "--rate", "2000"]  # which is too weak without "none"
    server.start()
    answer = server.ask("POST", "/v1/sandboxes", {"memoryMiB": 1024}, headers={"Prefer": "wait=60"})
    assert answer.json["stopReason"] == "startup_failed"
    assert (answer.json["chargedMicros"], answer.json["heldMicros"]) == ("0", "0")
    assert server.sql("SELECT count(*), sum(open) FROM hold") == [(1, 0)]
    Server.close(server)


def test_a_budget_refuses_before_anything_is_made(money: Callable[..., Money]) -> None:
    server = money(DEAR)
    body = {"memoryMiB": 1024, "timeoutSeconds": 60}
    refused = server.ask("POST", "/v1/sandboxes", {**body, "maxCostMicros": 59_999})
    assert (refused.status, refused.code) == (409, "budget_exceeded")
    assert refused.json["error"]["details"]["neededMicros"] == "60000"
    assert server.ask("POST", "/v1/sandboxes", {**body, "maxTotalCostMicros": 10}).status == 409
    assert server.sql("SELECT count(*) FROM sandbox") == [(0,)]
    assert server.ask("POST", "/v1/sandboxes", {**body, "maxCostMicros": 60_000}).status == 201


# --- caps and limits --------------------------------------------------------------------------


def test_a_lifetime_cap_stops_it(money: Callable[..., Money]) -> None:
    # busy it would cost twice what it costs idle, so the lease is lengthened on the way
    server = money(DEAR | {"cpuVcpuHourMicros": 3_600_000})
    made = server.create(memoryMiB=1024, maxTotalCostMicros=12_000, cpuFloorMillis=0)
    assert server.get(made)["heldMicros"] == "12000"
    stopped = server.stopped(made)
    assert stopped["stopReason"] == "lifetime_cap"
    assert 6500 < int(stopped["chargedMicros"]) <= 12_000


def test_a_cap_holds_without_the_server(money: Callable[..., Money]) -> None:
    server = money(DEAR)
    made = server.create(memoryMiB=1024, maxTotalCostMicros=2000)
    server.kill()
    word = server.home / "ended" / made
    wait_until(word.exists, "the machine to end by itself")
    server.start()
    stopped = server.stopped(made)
    assert stopped["stopReason"] == "lifetime_cap"
    assert 1500 < int(stopped["chargedMicros"]) <= 2000


def test_a_cap_can_be_changed(money: Callable[..., Money]) -> None:
    server = money(DEAR)
    made = server.create(memoryMiB=1024, maxTotalCostMicros=20_000)
    path = f"/v1/sandboxes/{made}:update"
    server.until_charged(made, 20)
    refused = server.ask("POST", path, {"maxTotalCostMicros": 10})
    assert (refused.status, refused.code) == (409, "budget_exceeded")
    changed = server.ask("POST", path, {"maxTotalCostMicros": None}).json
    assert changed["maxTotalCostMicros"] is None
    assert int(changed["heldMicros"]) > 100_000

    def lower() -> Any:
        """As it is refused when so much has run up already, a cap that is beyond that by 1500."""
        cap = int(server.get(made)["chargedMicros"]) + 1500
        changed = server.ask("POST", path, {"maxTotalCostMicros": cap})
        assert changed.status == 200 or changed.code == "budget_exceeded", changed.body
        return (cap, changed.json) if changed.status == 200 else None

    cap, changed = wait_until(lower, "a cap that is not yet reached")
    assert int(changed["heldMicros"]) <= cap
    assert server.stopped(made)["stopReason"] == "lifetime_cap"
    assert int(server.get(made)["chargedMicros"]) <= cap


def test_creates_at_once_cannot_overshoot(money: Callable[..., Money]) -> None:
    server = money(DEAR, quotas={"sandboxes": 64, "memoryMiB": 65536})
    server.limit(5 * 60_000 + 59_999)
    body = {"memoryMiB": 1024, "timeoutSeconds": 60}
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: server.ask("POST", "/v1/sandboxes", body), range(20)))
    assert sorted(a.status for a in answers) == [201] * 5 + [402] * 15
    refused = next(a for a in answers if a.status == 402)
    details = refused.json["error"]["details"]
    assert refused.code == "spending_limit_reached"
    assert "retryAfterMs" not in refused.json["error"]
    assert details["limitMicros"] == "359999"
    assert details["usedMicros"] == "300000"
    assert details["neededMicros"] == "60000"
    assert details["resetsAt"] is None  # holds go when sandboxes end, not with time
    limits = server.ask("GET", "/v1/limits").json
    assert limits["prices"] == {"cpuVcpuHourMicros": "0", "memoryGibHourMicros": "3600000"}
    assert limits["daily"] == {
        "limitMicros": "359999",
        "usedMicros": "300000",
        "heldMicros": "300000",
        "remainingMicros": "59999",
    }


def test_an_extension_needs_room_too(money: Callable[..., Money]) -> None:
    server = money(DEAR)
    server.limit(90_000)
    made = server.create(memoryMiB=1024, timeoutSeconds=60)
    before = server.get(made)
    refused = server.ask("POST", f"/v1/sandboxes/{made}:extend", {"seconds": 60})
    assert (refused.status, refused.code) == (402, "spending_limit_reached")
    assert server.get(made)["expiresAt"] == before["expiresAt"]
    assert server.get(made)["heldMicros"] == "60000"
    assert server.ask("POST", f"/v1/sandboxes/{made}:extend", {"seconds": 20}).status == 200


def test_a_limit_that_is_lowered_stops_what_runs(money: Callable[..., Money]) -> None:
    server = money(DEAR)
    made = server.create(memoryMiB=1024)
    server.until_charged(made, 50)
    server.limit(1)
    stopped = server.stopped(made)
    assert stopped["stopReason"] == "spending_limit"


def test_sandboxes_of_a_revoked_key_are_stopped(money: Callable[..., Money]) -> None:
    server = money()
    key = server.make_key()
    made = server.ask("POST", "/v1/sandboxes", {"memoryMiB": 256}, key=key).json["id"]
    kept = server.create()
    (revoked,) = server.sql("SELECT owner FROM sandbox WHERE id = ?", made)[0]
    assert server.command("keys", "revoke", revoked).returncode == 0
    wide = server.make_key("--account-wide")
    path = f"/v1/sandboxes/{made}?waitFor=stopped&timeoutSeconds=60"
    assert server.ask("GET", path, key=wide).json["stopReason"] == "authority_revoked"
    assert server.get(kept)["state"] == "running"


# --- what was used ----------------------------------------------------------------------------


def test_usage_in_groups_and_as_csv(money: Callable[..., Money]) -> None:
    server = money(DEAR)
    for student in ("ada", "=cmd|' /C calc'!A0"):
        made = server.create(
            memoryMiB=1024, name=student, labels={"course": "cs1", "student": student}
        )
        server.until_charged(made, 20)
        server.stop_one(made)
    spent = int(server.ask("GET", "/v1/usage").json["spent"])
    days = server.ask("GET", "/v1/usage?groupBy=day&range=24h").json["groups"]
    assert sum(int(d["chargedMicros"]) for d in days) == spent
    keys = server.ask("GET", "/v1/usage?groupBy=key").json["groups"]
    assert [(k["key"], k["name"], k["sandboxes"]) for k in keys] == [(server.key_id(), "test", 2)]
    labels = server.ask("GET", "/v1/usage?groupBy=label&label=course").json["groups"]
    assert [(g["key"], int(g["chargedMicros"])) for g in labels] == [("course:cs1", spent)]
    answer = server.ask("GET", "/v1/usage?groupBy=sandbox", headers={"Accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.body.endswith(b"\r\n")
    rows = list(csv.DictReader(io.StringIO(answer.body.decode(), newline="")))
    assert {r["name"] for r in rows} == {"ada", "'=cmd|' /C calc'!A0"}  # not a formula
    assert sum(int(r["charged_micros"]) for r in rows) == spent
    assert sum(round(float(r["charged_dollars"]) * 1e6) for r in rows) == spent
    nobody = server.ask("GET", "/v1/usage?format=csv", key=server.make_key())
    assert len(nobody.body.splitlines()) == 1  # the header: others' sandboxes are not its own
    wrong = server.ask("GET", "/v1/usage?since=yesterday")
    assert (wrong.status, wrong.code) == (400, "invalid_request")


def test_the_command_line_reads_the_store(money: Callable[..., Money]) -> None:
    server = money(DEAR)
    made = server.create(memoryMiB=1024, labels={"course": "cs1"})
    server.until_charged(made, 20)
    server.stop_one(made)
    server.stop()
    rows = json.loads(server.command("usage", "--by", "sandbox", "--json").stdout)
    assert [r["key"] for r in rows] == [made]
    table = server.command("usage", "--by", "label").stdout.splitlines()
    assert table[1].startswith("course:cs1 ")
    assert table[-1].startswith("all ")
    lines = server.command("usage", "--csv", "--since", "2020-01-01").stdout.splitlines()
    assert lines[0].startswith("day,name,sandboxes,charged_micros,")
    assert lines[1].split(",")[2] == "1"
    assert server.command("usage", "--since", "soon").returncode == 2
    assert server.command("usage", "--store", "/no/such.db").returncode == 2


def test_the_public_client(money: Callable[..., Money]) -> None:
    import withruntime
    from withruntime import ConflictError, Runtime

    server = money(DEAR)
    with Runtime(server.key, server.url) as runtime:
        box = runtime.sandboxes.create(memory_mib=1024, timeout_seconds=60, max_cost_micros=60_000)
        assert box.info["heldMicros"] == "60000"
        assert int(runtime.usage()["held"]) == 60_000
        assert runtime.limits.get()["daily"]["limitMicros"] is None
        with pytest.raises(ConflictError) as refused:
            runtime.sandboxes.create(memory_mib=1024, timeout_seconds=60, max_cost_micros=1)
        assert refused.value.code == "budget_exceeded"
        server.limit(60_000)
        with pytest.raises(withruntime.RuntimeError) as over:
            runtime.sandboxes.create(memory_mib=1024, timeout_seconds=60)
        assert over.value.code == "spending_limit_reached"
        box.stop()
        page = runtime.usage_export("2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z", limit=1)
        assert page["nextCursor"] is None
        (row,) = page["data"]
        assert row["chargedMicros"] == runtime.usage()["spent"]
        assert row["final"] is True
        (line,) = csv.DictReader(io.StringIO(page["csv"], newline=""))
        assert line["sandbox"] == box.id
        assert line["charged_micros"] == row["chargedMicros"]


# --- crashes ----------------------------------------------------------------------------------


def recomputed(rows: list[Any]) -> int:
    """The sum of all charges by exact arithmetic, written anew from the manual."""
    parts = sum(
        billed * 1024 * cpu + running * memory * price
        for billed, running, memory, cpu, price in rows
    )
    return (parts + PARTS // 2) // PARTS


def test_a_killed_server_loses_and_doubles_nothing(money: Callable[..., Money]) -> None:
    server = money(DEAR, quotas={"sandboxes": 500, "memoryMiB": 1 << 20})
    over = threading.Event()
    made: list[str] = []

    def kill_monitor(chance: random.Random) -> None:
        """Of any sandbox: what was measured of it before is what it costs."""
        found = [path.parent.name for path in server.home.glob("sandboxes/*/control.sock")]
        with suppress(OSError):  # it may just have ended
            os.kill(server.keeper(chance.choice(found or [""]))[0], signal.SIGKILL)

    def use(number: int) -> None:
        chance = random.Random(number)
        while not over.is_set():
            try:
                body = {"memoryMiB": chance.choice([128, 333, 1000]), "timeoutSeconds": 60}
                answer = server.ask("POST", "/v1/sandboxes", body, headers={"Prefer": "wait=5"})
                made.append(answer.json["id"])
                if chance.random() < 0.5:
                    path = f"/v1/sandboxes/{made[-1]}:extend"
                    server.ask("POST", path, {"seconds": chance.randrange(1, 60)})
                server.ask("POST", f"/v1/sandboxes/{made[-1]}:stop")
            except (OSError, HTTPException, KeyError, ValueError):
                over.wait(0.05)  # the server is dead just now, or the answer was cut

    chance = random.Random(1)
    with ThreadPoolExecutor(4) as pool:
        users = [pool.submit(use, n) for n in range(4)]
        # each round kills two monitors and the server
        for _ in range(-(-int(os.environ.get("SEALMARK_KILLS", "24")) // 3)):
            over.wait(chance.uniform(0.05, 0.6))
            kill_monitor(chance)
            server.kill()
            kill_monitor(chance)
            server.start()
        over.set()
        for user in users:
            user.result()
    for (left,) in server.sql("SELECT id FROM sandbox WHERE state < 3"):
        server.stopped(left) if server.stop_one(left)["state"] != "stopped" else None
    assert len(made) > 8
    assert server.sql("SELECT count(*) FROM hold WHERE open OR held_micros") == [(0,)]
    # every sandbox that ran has its charge, once for each lease, without gaps
    assert server.sql(
        "SELECT count(*) FROM sandbox WHERE ready_ms > 0"
        " AND (SELECT count(*) FROM charge WHERE sandbox = id)"
        " <> (SELECT lease FROM hold WHERE sandbox = id)"
    ) == [(0,)]
    assert server.sql(
        "SELECT count(*) FROM hold WHERE charged_micros <>"
        " (SELECT coalesce(sum(micros), 0) FROM charge WHERE charge.sandbox = hold.sandbox)"
    ) == [(0,)]
    rows = server.sql(
        "SELECT billed_cpu_us, running_us, memory_mib, cpu_price, memory_price FROM charge"
    )
    assert len(rows) > 8
    assert server.sql("SELECT sum(micros) FROM charge") == [(recomputed(rows),)]
    assert server.ask("GET", "/v1/usage").json["spent"] == str(recomputed(rows))


# --- real machines ----------------------------------------------------------------------------


def test_the_cpu_is_measured_on_the_host(own_server: Callable[..., Server]) -> None:
    server = own_server()
    made = server.create(cpuFloorMillis=0)
    # so much work, not so much time: the guest's clock runs on while the host does something else
    work = "for _ in range(30000000): pass"
    assert server.run(made, f"python3 -c '{work}'", timeoutMs=120_000)["exitCode"] == 0
    server.ask("POST", f"/v1/sandboxes/{made}:stop")
    (row,) = server.ask("GET", "/v1/usage").json["resources"]
    assert row["cpuMs"] >= 200
    assert row["billedCpuMs"] <= row["runningMs"]
    assert row["billedCpuMs"] == min(row["cpuMs"], row["runningMs"])
    assert row["memoryMibSeconds"] * 1000 // 256 == pytest.approx(row["runningMs"], abs=5)
