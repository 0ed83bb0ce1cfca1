# SPDX-License-Identifier: Apache-2.0
"""Programs that ask a person for a key, keys in a person's hands, and the audit log."""

import hashlib
import html
import json
import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from people import PASSWORD, Browser, Program
from serving import Server
from support import wait_until


def raw(server: Server, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as sock:
        sock.sendall(request)
        answer = b""
        while data := sock.recv(65536):
            answer += data
        return answer


# --- programs that ask for keys ---------------------------------------------------------------


def test_a_program_gets_its_key_when_a_person_agrees(person: Browser, program: Program) -> None:
    start = program.start(purpose="grading", access="read", dailyLimitMicros=1_250_000)
    assert start.json["status"] == "pending" and start.json["interval"] == 5
    code = start.json["userCode"]
    assert start.json["verificationUri"] == f"{person.origin}/approve?code={code}"
    assert program.poll()["status"] == "pending"

    listed = person.fetch("GET", "/api/approvals").json["data"]
    assert [a["userCode"] for a in listed] == [code]
    assert listed[0]["agentName"] == "agent" and listed[0]["machine"] == "laptop"
    assert listed[0]["purpose"] == "grading" and listed[0]["access"] == "read"
    assert listed[0]["dailyLimitMicros"] == 1_250_000 and listed[0]["address"] == "127.0.0.1"
    page = person.get(f"/approve?code={code}")
    for text in (code, "agent", "laptop", "grading", "127.0.0.1", 'value="1.25"'):
        assert text.encode() in page.body
    fields = {"csrf": person.token(page), "code": code, "access": "full", "limit": "2.5"}
    assert person.form("/approve", {**fields, "limit": "-1", "decision": "approve"}).status == 422
    answer = person.form("/approve", {**fields, "decision": "approve"})
    assert answer.status == 200 and b"Approved" in answer.body

    got = program.poll()
    assert got["status"] == "connected"
    key = program.decrypt(got["encryptedKey"])
    assert key.startswith(f"rtcloud_{got['keyId']}_")
    me = person.server.ask("GET", "/v1/me", key=key).json
    assert me["key"]["access"] == "full" and not me["key"]["accountWide"]
    limits = person.server.ask("GET", "/v1/limits", key=key).json
    assert int(limits["daily"]["limitMicros"]) == 2_500_000
    assert program.call("confirm").json == {"status": "connected", "keyId": got["keyId"]}
    assert "encryptedKey" not in program.poll()  # it is fetched once
    kept = person.fetch("GET", "/api/keys").json["data"][-1]
    assert kept["name"] == "agent on laptop" and kept["dailyLimitMicros"] == 2_500_000
    again = person.form("/approve", {**fields, "decision": "approve"})
    assert again.status == 410


def test_the_public_client_works_with_a_key_that_was_approved(
    person: Browser, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved as the service's own login saves it, for this server; the client is not told of it."""
    from withruntime import Runtime

    program.start()
    person.fetch("POST", f"/api/approvals/{program.codes['userCode']}:approve", {})
    key = program.decrypt(program.poll()["encryptedKey"])
    url = person.server.url
    folder = tmp_path / "config" / "runtime-cloud"
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    name = hashlib.sha256(f"{url}\n{url}".encode()).hexdigest()
    saved = folder / f"{name}.json"
    saved.write_text(json.dumps({"apiOrigin": url, "key": key}))
    saved.chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("RUNTIME_API_URL", url)
    monkeypatch.setenv("RUNTIME_AUTH_URL", url)
    monkeypatch.delenv("RUNTIME_API_KEY", raising=False)
    with Runtime() as runtime:
        assert runtime.limits.get()["access"] == "full"


def test_an_approval_gives_what_was_asked_unless_it_says_otherwise(
    person: Browser, program: Program
) -> None:
    program.start(access="selected", products=["images"], dailyLimitMicros=7)
    person.fetch("POST", f"/api/approvals/{program.codes['userCode']}:approve", {})
    made = person.fetch("GET", "/api/keys").json["data"][-1]
    assert made["access"] == "selected" and made["products"] == ["images"]
    assert made["dailyLimitMicros"] == 7 and not made["accountWide"]
    program.start(access="full", dailyLimitMicros=7)
    path = f"/api/approvals/{program.codes['userCode'].lower()}:approve"
    assert person.fetch("POST", path, {"access": "selected"}).status == 400
    body = {"access": "read", "dailyLimitMicros": None, "accountWide": True}
    assert person.fetch("POST", path, body).status == 200
    made = person.fetch("GET", "/api/keys").json["data"][-1]
    assert made["access"] == "read" and made["dailyLimitMicros"] is None and made["accountWide"]


def test_an_approval_pressed_many_times_makes_one_key(person: Browser, program: Program) -> None:
    program.start()
    path = f"/api/approvals/{program.codes['userCode']}:approve"
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: person.fetch("POST", path, {}), range(4)))
    assert sorted(a.status for a in answers) == [200, 409, 409, 409]
    made = [a.json["keyId"] for a in answers if a.status == 200]
    assert [k["id"] for k in person.fetch("GET", "/api/keys").json["data"]][1:] == made
    assert program.poll()["keyId"] == made[0]


def test_a_person_denies(person: Browser, program: Program) -> None:
    program.start()
    code = program.codes["userCode"]
    page = person.get(f"/approve?code={code}")
    fields = {"csrf": person.token(page), "code": code, "decision": "deny"}
    assert b"Denied" in person.form("/approve", fields).body
    assert program.poll() | {"expiresAt": 0, "interval": 0} == {
        "status": "denied",
        "expiresAt": 0,
        "interval": 0,
    }
    assert person.fetch("POST", f"/api/approvals/{code}:approve", {}).status == 409
    assert program.call("confirm").status == 409


def test_a_program_gives_up(person: Browser, program: Program) -> None:
    program.start()
    assert program.call("cancel").json == {"status": "canceled"}
    assert program.call("cancel").status == 409
    code = program.codes["userCode"]
    assert person.fetch("POST", f"/api/approvals/{code}:approve", {}).status == 409
    assert b"There is nothing to decide" in person.get(f"/approve?code={code}").body
    assert program.poll()["status"] == "canceled"


def test_a_decision_needs_a_session(owned: Server, program: Program) -> None:
    program.start()
    code = program.codes["userCode"]
    key = owned.make_key("--account-wide")
    for verb in ("approve", "deny"):
        path = f"/api/approvals/{code}:{verb}"
        assert owned.ask("POST", path, {}, key=key).code == "permission_denied"
        assert owned.ask("POST", path, {}, key="").status == 401
    stranger = Browser(owned)
    page = stranger.get(f"/approve?code={code}")
    assert page.status == 303 and page.headers["location"] == f"/signin?code={code}"
    form = {"code": code, "decision": "approve", "csrf": stranger.token(stranger.get("/signin"))}
    assert stranger.form("/approve", form).status == 303
    assert program.poll()["status"] == "pending"


def test_polling_too_fast_is_told_so_and_a_strangers_code_is_expired(program: Program) -> None:
    program.start()
    # the two are too fast unless the host stood still between them
    fast = wait_until(
        lambda: (a := program.call("token")).status != 200 and a, "a poll that is too fast"
    )
    assert fast.code == "rate_limited" and fast.json["error"]["details"]["reason"] == "slow_down"
    assert fast.json["error"]["retryAfterMs"] == 5000
    program.codes = {"deviceCode": program.codes["userCode"]}  # what others may have seen
    assert program.call("token").json == {"status": "expired"}
    assert program.call("confirm").status == 404
    assert program.call("cancel").status == 404


def test_two_that_share_a_device_code_get_the_same_encrypted_key(
    person: Browser, program: Program
) -> None:
    """It is of use to the holder of the private key only, and there is one key."""
    program.start()
    person.fetch("POST", f"/api/approvals/{program.codes['userCode']}:approve", {})
    before = len(person.fetch("GET", "/api/keys").json["data"])
    first, second = program.poll(), program.poll()
    assert first["encryptedKey"] == second["encryptedKey"]
    assert len(person.fetch("GET", "/api/keys").json["data"]) == before


def test_requests_of_one_address_are_bounded(owned: Server, program: Program) -> None:
    program.start()
    answers = [owned.ask("POST", "/api/connect/start", program.body, key="") for _ in range(20)]
    assert [a.status for a in answers[:-1]] == [200] * 19
    assert answers[-1].code == "rate_limited"


@pytest.mark.parametrize(
    "fields",
    [
        {"publicKey": "x"},
        {"publicKey": "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"},
        {"publicKey": "A" * 4097},
        {"agentName": ""},
        {"agentName": "a" * 101},
        {"agentName": "a\0b"},
        {"purpose": "p" * 501},
        {"access": "all"},
        {"access": "selected"},
        {"access": "full", "products": ["images"]},
        {"access": "selected", "products": ["secrets"]},
        {"dailyLimitMicros": -1},
        {"dailyLimitMicros": 1.5},
        {"dailyLimitMicros": 2**63},
    ],
    ids=lambda f: " ".join(f"{k}={str(v)[:20]!r}" for k, v in f.items()),
)
def test_what_is_wrong_is_not_taken(program: Program, fields: dict[str, Any]) -> None:
    assert program.start(**fields).status == 400
    assert program.codes is None


def test_what_a_program_says_of_itself_stays_text(person: Browser, program: Program) -> None:
    """HTML and control characters in every field: nothing of it becomes a tag or an attribute."""
    nasty = "\"><img src=x onerror=alert(1)><script>x</script>'&amp;\u202e\x1b[2J"
    program.start(agentName=nasty, machine=nasty, purpose=nasty)
    page = person.get(f"/approve?code={program.codes['userCode']}").body
    assert b"<img" not in page and b"<script" not in page and b"onerror=alert(1)>" not in page
    assert b"\x1b" not in page and "\u202e".encode() not in page
    assert html.escape("<script>x</script>").encode() in page
    person.fetch("POST", f"/api/approvals/{program.codes['userCode']}:approve", {})
    shown = person.server.command("keys", "ls").stdout
    assert "\x1b" not in shown and "\u202e" not in shown
    log = person.fetch("GET", "/api/audit?action=approval.").json["data"][0]
    assert log["detail"]["agentName"] == nasty  # the whole truth, as JSON


def test_a_host_that_a_stranger_could_own_makes_no_link(owned: Server, program: Program) -> None:
    program.start()
    body = json.dumps({"agentName": "a", "publicKey": "x"}).encode()
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example"):
        request = (
            f"POST /api/connect/start HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()
        assert b"evil" not in raw(owned, request + body)
        page = Browser(owned).get("/signin", Host=host)
        assert page.status == 400 and b"Not by this name" in page.body


# --- keys in the hands of a person ------------------------------------------------------------


def test_a_key_is_made_limited_and_revoked(person: Browser) -> None:
    made = person.fetch("POST", "/api/keys", {"name": "ci", "dailyLimitMicros": 5}).json
    key, path = made["key"], f"/api/keys/{made['id']}"
    ask = person.server.ask
    assert ask("GET", "/v1/me", key=key).status == 200
    assert int(ask("GET", "/v1/limits", key=key).json["daily"]["limitMicros"]) == 5
    assert "key" not in person.fetch("GET", "/api/keys").json["data"][-1]
    for value in (7, None, 0):
        limited = person.fetch("POST", f"{path}:limit", {"dailyLimitMicros": value})
        assert limited.json["dailyLimitMicros"] == value
    assert person.fetch("POST", f"{path}:limit", {}).status == 400
    assert ask("POST", f"{path}:limit", {"dailyLimitMicros": None}, key=key).status == 403
    assert person.fetch("POST", f"{path}:revoke", {}).json["revokedAt"]
    assert ask("GET", "/v1/me", key=key).status == 401
    assert person.fetch("POST", f"{path}:revoke", {}).status == 404
    assert person.fetch("POST", f"{path}:limit", {"dailyLimitMicros": 1}).status == 404


def test_a_key_that_is_made_is_not_answered_again(person: Browser) -> None:
    """With an Idempotency-Key its text would have to be kept: there are two keys instead."""
    headers = {"Idempotency-Key": "same"}
    made = [person.fetch("POST", "/api/keys", {"name": "n"}, headers).json for _ in range(2)]
    assert made[0]["id"] != made[1]["id"]


def test_a_key_that_may_read_opens_no_terminal(person: Browser) -> None:
    """A WebSocket begins as a GET, and is none."""
    key = person.fetch("POST", "/api/keys", {"name": "n", "access": "read"}).json["key"]
    headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
    answer = person.server.ask("GET", "/v1/sandboxes/x/terminal", key=key, headers=headers)
    assert answer.code == "permission_denied"


def test_a_session_opens_no_terminal_for_another_site(person: Browser) -> None:
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Origin": "http://evil.example"}
    assert person.fetch("GET", "/v1/sandboxes/x/terminal", None, headers).code == "forbidden"


def test_a_selected_key_reaches_what_it_names(person: Browser) -> None:
    body = {"name": "n", "access": "selected", "products": ["images"]}
    key = person.fetch("POST", "/api/keys", body).json["key"]
    ask = person.server.ask
    assert ask("GET", "/v1/images", key=key).status == 200
    assert ask("GET", "/v1/me", key=key).json["key"]["access"] == "selected"
    for method, path in (
        ("GET", "/v1/sandboxes"),
        ("POST", "/v1/sandboxes"),
        ("GET", "/v1/events"),
    ):
        answer = ask(method, path, {} if method == "POST" else None, key=key)
        assert answer.code == "permission_denied", path
    assert person.fetch("POST", "/api/keys", {"name": "n", "access": "selected"}).status == 400


# --- the audit log ----------------------------------------------------------------------------


def test_decisions_are_in_the_log_with_who_where_and_request(
    person: Browser, program: Program
) -> None:
    Browser(person.server).sign_in("a wrong password")
    made = person.fetch("POST", "/api/keys", {"name": "ci"})
    key = made.json["id"]
    person.fetch("POST", f"/api/keys/{key}:limit", {"dailyLimitMicros": 9})
    person.fetch("POST", f"/api/keys/{key}:revoke", {})
    program.start()
    person.fetch("POST", f"/api/approvals/{program.codes['userCode']}:deny", {})
    by_line = person.server.make_key().split("_")[1]
    entries = person.fetch("GET", "/api/audit?limit=100").json["data"]
    actions = [e["action"] for e in entries]
    assert actions[:6] == [
        "key.created",
        "approval.denied",
        "key.revoked",
        "key.limit_set",
        "key.created",
        "session.refused",
    ]
    assert actions[-1] == "owner.link_made" and "owner.password_set" in actions
    assert entries[0]["who"] == "operator" and entries[0]["target"] == by_line
    assert entries[3]["detail"] == {"dailyLimitMicros": 9} and entries[3]["target"] == key
    assert entries[4]["who"] == "owner" and entries[4]["address"] == "127.0.0.1"
    assert entries[4]["requestId"] == made.headers["x-request-id"]
    assert entries[5]["who"] == "stranger"
    # who knows the password, or has the link, is no stranger
    begun = [e for e in entries if e["action"] in ("session.created", "owner.password_set")]
    assert len(begun) >= 2
    assert {(e["who"], e["detail"]["name"]) for e in begun} == {("owner", "Ann")}
    Browser(person.server).sign_in("a wrong password")
    page = Browser(person.server)
    page.form("/signin", {"csrf": page.token(page.get("/signin")), "password": PASSWORD})
    page.form("/signout", {"csrf": page.token(page.get("/"))})
    last = person.fetch("GET", "/api/audit?action=session.&limit=3").json["data"]
    assert [(e["action"], e["who"]) for e in last] == [
        ("session.ended", "owner"),
        ("session.created", "owner"),
        ("session.refused", "stranger"),
    ]


def test_the_log_has_pages_and_the_command_line_checks_it(person: Browser) -> None:
    for i in range(5):
        person.fetch("POST", "/api/keys", {"name": f"n{i}"})
    seen, cursor = [], ""
    while True:
        page = person.fetch("GET", f"/api/audit?limit=2{cursor}").json
        seen += [e["seq"] for e in page["data"]]
        if not page["nextCursor"]:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert seen == list(range(seen[0], 0, -1))
    only = person.fetch("GET", "/api/audit?action=session.").json["data"]
    assert {e["action"] for e in only} == {"session.created"}
    done = person.server.command("audit", "--json", "--action", "key.")
    assert done.returncode == 0
    assert [e["action"] for e in json.loads(done.stdout)] == ["key.created"] * 6
    assert person.server.command("audit").stdout.endswith("bound to the one before it\n")


def test_a_log_that_was_changed_is_told(person: Browser) -> None:
    with sqlite3.connect(person.server.home / "sealmark.db", timeout=60) as db:
        with pytest.raises(sqlite3.IntegrityError):
            db.execute("UPDATE audit SET address = '192.0.2.1' WHERE seq = 2")
        db.execute("DROP TRIGGER audit_update")
        db.execute("UPDATE audit SET address = '192.0.2.1' WHERE seq = 2")
    done = person.server.command("audit")
    assert done.returncode == 1 and "entry 2 of the audit log was changed" in done.stderr
