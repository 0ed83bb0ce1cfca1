# SPDX-License-Identifier: Apache-2.0
"""Raw HTTP: the whole table of routes, errors, limits, idempotency, slow and broken clients."""

import hashlib
import http.client
import json
import os
import re
import select
import socket
import ssl
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from serving import Answer, Server
from support import wait_until

ID = str(uuid.uuid4())
CODES = {
    400: {"invalid_request", "invalid_env", "env_too_large"},
    401: {"unauthorized"},
    403: {"forbidden", "permission_denied"},
    404: {"not_found", "route_not_found", "file_not_found", "image_not_found"},
    405: {"method_not_allowed"},
    409: {"sandbox_stopped"},
    413: {"body_too_large"},
    422: {"idempotency_key_reused"},
    501: {"unavailable"},
}


def check_error(answer: Answer, status: int) -> dict[str, Any]:
    """The shape that every error has; its code belongs to its status."""
    error = answer.json["error"]
    assert answer.status == status == error["status"], answer.body
    assert error["code"] in CODES[status]
    assert error["message"]
    assert error["requestId"] == answer.headers["x-request-id"]
    assert {"hint", "details"} <= error.keys()
    return error


def routes(server: Server, people: bool = False) -> list[tuple[str, str, dict[str, Any]]]:
    """What a key may use; with `people` also what needs a person's session."""
    document = server.ask("GET", "/v1/openapi.json", key="").json
    assert document["openapi"].startswith("3.")
    return [
        (method.upper(), path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if people or operation.get("security") != [{"session": []}]
    ]


def example(schema: dict[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    if schema["type"] == "object":
        required = schema.get("required", [])
        return {k: example(v) for k, v in schema.get("properties", {}).items() if k in required}
    if schema["type"] == "string":
        return "/x" + "0" * max(0, schema.get("minLength", 0) - 2)
    plain = {"integer": schema.get("minimum", 1), "boolean": True, "array": ["x"]}
    return plain[schema["type"]]


def filled(path: str) -> str:
    return re.sub(r"\{\w+\}", ID, path)


def body_schema(operation: dict[str, Any]) -> dict[str, Any] | None:
    content = operation.get("requestBody", {}).get("content", {})
    return content.get("application/json", {}).get("schema")


# --- every route ------------------------------------------------------------------------------


def test_every_route_needs_a_key(server: Server) -> None:
    for method, path, operation in routes(server, people=True):
        answer = server.ask(method, filled(path), key="")
        if operation.get("security") == []:
            assert answer.status in (200, 400), path
        else:
            check_error(answer, 401)


def test_no_key_does_what_only_a_person_may(server: Server) -> None:
    """Not even one that may do everything for the whole account."""
    key = server.make_key("--account-wide")
    only = {(m, p) for m, p, _ in routes(server, people=True)} - {
        (m, p) for m, p, _ in routes(server)
    }
    assert ("POST", "/api/keys/{id}:limit") in only
    for method, path in only:
        answer = server.ask(method, filled(path), {"dailyLimitMicros": None}, key=key)
        assert check_error(answer, 403)["code"] == "permission_denied", path


def test_every_route_of_the_contract_is_there(server: Server) -> None:
    there = {(method, path) for method, path, _ in routes(server)}
    sandbox = "/v1/sandboxes/{id}"
    wanted = {
        ("POST", "/v1/sandboxes"),
        ("GET", "/v1/sandboxes"),
        ("GET", sandbox),
        ("DELETE", sandbox),
        ("GET", "/v1/images"),
        ("POST", "/v1/images"),
        ("GET", "/v1/images/resolve"),
        ("GET", "/v1/limits"),
        ("GET", "/v1/me"),
        ("GET", "/v1/usage"),
        ("GET", f"{sandbox}/files/content"),
        ("PUT", f"{sandbox}/files/content"),
        ("GET", f"{sandbox}/files/list"),
        ("GET", f"{sandbox}/files/stat"),
        ("GET", f"{sandbox}/files/archive"),
        ("PUT", f"{sandbox}/files/archive"),
        ("POST", f"{sandbox}/uploads"),
        ("POST", f"{sandbox}/processes"),
        ("GET", f"{sandbox}/terminal"),
    }
    verbs = "stop pause wake extend restart update fork snapshot exec".split()
    wanted |= {("POST", f"{sandbox}:{verb}") for verb in verbs}
    wanted |= {("POST", f"{sandbox}/files:{v}") for v in "mkdir remove rename chmod".split()}
    assert wanted <= there


def test_every_route_refuses_what_it_does_not_know(server: Server) -> None:
    """An unknown query parameter and an unknown field: on each route that takes any."""
    for method, path, operation in routes(server):
        if "501" in operation["responses"]:
            check_error(server.ask(method, filled(path), {"any": "thing"}), 501)
            continue
        answer = server.ask(method, filled(path) + "?no_such=1")
        issues = check_error(answer, 400)["details"]["issues"]
        assert "no_such" in [i["path"] for i in issues], path
        schema = body_schema(operation)
        if schema is not None:
            answer = server.ask(method, filled(path), {**example(schema), "noSuch": 1})
            issues = check_error(answer, 400)["details"]["issues"]
            assert [i["path"] for i in issues] == ["noSuch"], path


def test_every_field_is_held_to_its_type(server: Server) -> None:
    """A wrong type in every field at once: each is named, and nothing else."""
    wrong = {"integer": "x", "string": 1, "boolean": "x", "array": 1, "object": 1}
    for method, path, operation in routes(server):
        schema = body_schema(operation)
        if schema is None or not schema["properties"]:
            continue
        fields = {n: field for n, field in schema["properties"].items() if "type" in field}
        body = {name: wrong[field["type"]] for name, field in fields.items()}
        issues = check_error(server.ask(method, filled(path), body), 400)["details"]["issues"]
        assert {i["path"] for i in issues} == set(body), path


def test_every_integer_has_its_limits(server: Server) -> None:
    for method, path, operation in routes(server):
        for name, field in ((body_schema(operation) or {}).get("properties") or {}).items():
            if field.get("type") != "integer":
                continue
            for value in (field["minimum"] - 1, field["maximum"] + 1):
                if value >= 2**63:
                    continue
                body = {**example(body_schema(operation) or {}), name: value}
                answer = server.ask(method, filled(path), body)
                issues = check_error(answer, 400)["details"]["issues"]
                assert name in [i["path"] for i in issues], (path, name, value)


def test_every_route_of_a_sandbox_that_is_not_there(server: Server) -> None:
    for method, path, operation in routes(server):
        if "/sandboxes/{id}" not in path or "501" in operation["responses"]:
            continue
        query = "&".join(
            f"{p['name']}={example(p['schema'])}"
            for p in operation["parameters"]
            if p["in"] == "query" and p["required"]
        )
        schema = body_schema(operation)
        body: Any = None if schema is None else example(schema)
        if path.endswith((":exec", "/processes")) and method == "POST":
            body = {"command": "true"}
        elif path.endswith("/uploads") and "/archive" not in path:
            body = {**body, "sha256": "0" * 64}
        elif path.endswith(":chmod"):
            body = {**body, "mode": "644"}
        elif method == "PUT" and schema is None:
            body = b"x"
        answer = server.ask(method, f"{filled(path)}?{query}", body)
        assert check_error(answer, 404)["code"] == "not_found", path


def test_paths_and_methods_that_are_not_there(server: Server) -> None:
    for path in ("/v1", "/v2/sandboxes", "/v1/sandboxes/", f"/v1/sandboxes/{ID}:nothing"):
        assert check_error(server.ask("GET", path), 404)["code"] == "route_not_found"
    for method, path in (("PATCH", "/v1/sandboxes"), ("PUT", f"/v1/sandboxes/{ID}")):
        check_error(server.ask(method, path), 405)


# --- bodies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"7", b'"x"', b"null", b'{"a": 1', b'{"name": "\xff"}', b"\x00", b"{}{}",
     b'{"name": "a", "name": "b"}', b"[" * 100_000],
    ids=lambda b: repr(b[:16]),
)  # fmt: skip
def test_bodies_that_are_no_object(server: Server, body: bytes) -> None:
    check_error(server.ask("POST", "/v1/sandboxes", body), 400)


def test_queries_that_are_no_text(server: Server, sandbox: str) -> None:
    stat = f"/v1/sandboxes/{sandbox}/files/stat?path="
    for path in ("%ff", "/a%00b", "", "relative", "%2e%2e"):
        check_error(server.ask("GET", stat + path), 400)
    assert server.ask("GET", stat + "/%C3%A9").json == {"exists": False, "path": "/é"}


def test_bodies_that_are_too_large(server: Server, sandbox: str) -> None:
    path = f"/v1/sandboxes/{sandbox}/files/content?path=/workspace/x"
    assert server.ask("PUT", path, b"x" * (1 << 20)).status == 200
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.putrequest("PUT", path)
    connection.putheader("Authorization", f"Bearer {server.key}")
    connection.putheader("Content-Length", str((1 << 20) + 1))
    connection.endheaders()  # refused before a byte of it was sent
    assert connection.getresponse().status == 413
    connection.close()
    connection.connect()

    def pieces() -> Any:
        for _ in range(40):
            yield b"x" * 32768

    headers = {"Authorization": f"Bearer {server.key}"}
    connection.request("PUT", path, pieces(), headers, encode_chunked=True)
    response = connection.getresponse()
    answer = Answer(
        response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    )
    check_error(answer, 413)
    connection.close()


def test_variables_have_limits(server: Server) -> None:
    for env, code in (
        ({"1A": "x"}, "invalid_env"),
        ({"A=B": "x"}, "invalid_env"),
        ({"A": "x" * 32767}, "env_too_large"),
        ({f"V{i}": "" for i in range(33)}, "env_too_large"),
    ):
        answer = server.ask("POST", "/v1/sandboxes", {"env": env})
        assert check_error(answer, 400)["code"] == code


# --- idempotency ------------------------------------------------------------------------------


def test_one_key_at_once_is_done_once(server: Server, sandbox: str) -> None:
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"command": "sleep 0.3; echo x >> once; wc -l < once"}
    answers: list[Answer] = []

    def ask() -> None:
        path = f"/v1/sandboxes/{sandbox}:exec"
        answers.append(server.ask("POST", path, body, headers=headers))

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [a.json["stdout"] for a in answers] == ["1\n"] * 5
    assert len({a.json["processId"] for a in answers}) == 1
    replayed = [a.headers.get("idempotency-replayed") for a in answers]
    assert sorted(replayed, key=str) == [None, "true", "true", "true", "true"]
    assert sum(bool(a.json.get("replayed")) for a in answers) == 4


def test_a_key_is_of_one_request(server: Server, sandbox: str) -> None:
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    mkdir = f"/v1/sandboxes/{sandbox}/files:mkdir"
    assert server.ask("POST", mkdir, {"path": "/workspace/a"}, headers=headers).status == 200
    answer = server.ask("POST", mkdir, {"path": "/workspace/b"}, headers=headers)
    check_error(answer, 422)
    remove = f"/v1/sandboxes/{sandbox}/files:remove"
    check_error(server.ask("POST", remove, {"path": "/workspace/a"}, headers=headers), 422)
    # another key of the account is another name space
    other = server.ask("GET", f"/v1/sandboxes/{sandbox}", key=server.make_key())
    check_error(other, 404)
    wide = server.ask("GET", f"/v1/sandboxes/{sandbox}", key=server.make_key("--account-wide"))
    assert wide.status == 200


def test_what_was_refused_may_be_sent_again(server: Server, sandbox: str) -> None:
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    path = f"/v1/sandboxes/{sandbox}/files:rename"
    body = {"from": "/workspace/not-yet", "to": "/workspace/moved"}
    check_error(server.ask("POST", path, body, headers=headers), 404)
    server.run(sandbox, "touch not-yet")
    assert server.ask("POST", path, body, headers=headers).status == 200


@pytest.mark.parametrize("key", ["-x", "a b", "a/b", "x" * 129, "ä"])
def test_keys_that_are_none(server: Server, sandbox: str, key: str) -> None:
    headers = {"Idempotency-Key": key.encode("latin-1").decode("latin-1")}
    check_error(server.ask("POST", f"/v1/sandboxes/{sandbox}:stop", {}, headers=headers), 400)


# --- answers ----------------------------------------------------------------------------------


def test_answers_have_ids_of_their_own(server: Server) -> None:
    ids = {server.ask("GET", "/v1/me").headers["x-request-id"] for _ in range(5)}
    assert len(ids) == 5


def test_waiting_for_a_state(server: Server, sandbox: str) -> None:
    started = time.monotonic()
    path = f"/v1/sandboxes/{sandbox}?waitFor=stopped&timeoutSeconds=1"
    assert server.ask("GET", path).json["state"] == "running"
    assert time.monotonic() - started > 0.9  # it did wait
    ends: list[Any] = []
    waiter = threading.Thread(target=lambda: ends.append(server.stopped(sandbox)))
    waiter.start()
    assert server.ask("POST", f"/v1/sandboxes/{sandbox}:stop", {}).status == 200
    waiter.join(60)
    assert ends[0]["stopReason"] == "requested"


def test_lists_with_wrong_cursors(server: Server) -> None:
    for cursor in ("x", "-1", "99999999999999999999"):
        check_error(server.ask("GET", f"/v1/sandboxes?cursor={cursor}"), 400)
    assert server.ask("GET", "/v1/sandboxes?cursor=999999999").json["data"] == []
    check_error(server.ask("GET", "/v1/sandboxes?label=nocolon"), 400)
    check_error(server.ask("GET", "/v1/sandboxes?state=odd"), 400)


def test_an_upload_that_differs_is_refused(server: Server, sandbox: str) -> None:
    uploads = f"/v1/sandboxes/{sandbox}/uploads"
    body = {"path": "/workspace/u", "size": 5, "sha256": "0" * 64}
    upload = server.ask("POST", uploads, body).json["uploadId"]
    assert server.ask("PUT", f"{uploads}/{upload}?offset=0", b"hello").status == 200
    check_error(server.ask("PUT", f"{uploads}/{upload}?offset=1", b"hello"), 400)
    check_error(server.ask("POST", f"{uploads}/{upload}:commit", {}), 400)
    stat = server.ask("GET", f"/v1/sandboxes/{sandbox}/files/stat?path=/workspace/u")
    assert stat.json["exists"] is False
    assert server.ask("POST", f"{uploads}/{upload}:abort", {}).status == 200
    check_error(server.ask("POST", f"{uploads}/{upload}:commit", {}), 404)
    check_error(server.ask("PUT", f"{uploads}/../../x?offset=0", b"x"), 404)
    assert list((server.home / "uploads").iterdir()) == []
    too_large = {**body, "size": 1 << 40}
    check_error(server.ask("POST", uploads, too_large), 413)


def test_a_bomb_is_bounded(server: Server, sandbox: str) -> None:
    """The disk of the sandbox has 128 MiB; this unpacks to 400."""
    import gzip
    import io
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("zeros")
        info.size = 400 << 20
        tar.addfile(info, open("/dev/zero", "rb"))  # noqa: SIM115
    packed = gzip.compress(out.getvalue(), 6)
    assert len(packed) < 1 << 20
    answer = server.ask("PUT", f"/v1/sandboxes/{sandbox}/files/archive?path=/workspace", packed)
    assert answer.status in (409, 413), answer.body
    assert server.run(sandbox, "echo alive")["stdout"] == "alive\n"


@pytest.mark.parametrize("rest", ["content?path=/opt/file", "archive?path=/opt/folder",
                                  "archive?path=/opt/folder&gzip=true"])  # fmt: skip
def test_a_stream_that_cannot_begin_is_an_error(server: Server, sandbox: str, rest: str) -> None:
    """It was a 200 that broke off, or, when it was quick, no answer at all."""
    command = "umask 77; mkdir -p /opt/folder; head -c 5000000 /dev/zero > /opt/file"
    assert server.run(sandbox, command, user="root")["exitCode"] == 0
    answer = server.ask("GET", f"/v1/sandboxes/{sandbox}/files/{rest}")
    check_error(answer, 403)
    assert "Permission denied" in answer.json["error"]["message"]
    # with the rights it needs there is nothing in the way
    assert server.run(sandbox, "chmod -R a+rX /opt", user="root")["exitCode"] == 0
    whole = server.ask("GET", f"/v1/sandboxes/{sandbox}/files/{rest}")
    assert whole.status == 200 and whole.body


# --- connections ------------------------------------------------------------------------------


def test_too_many_requests(own_server: Callable[..., Server]) -> None:
    server = own_server(start=False)
    server.options = ["--rate", "1"]
    server.start()
    answers = [server.ask("GET", "/v1/me") for _ in range(4)]
    assert [a.status for a in answers] == [200] * 4
    results: list[Answer] = []

    def ask_at_once() -> list[Answer]:
        """Twelve more, which are at once if nothing stands still meanwhile; who was refused."""
        threads = [
            threading.Thread(target=lambda: results.append(server.ask("GET", "/v1/me")))
            for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return [a for a in results if a.status == 429]

    refused = wait_until(ask_at_once, "a request that is refused")
    assert {a.status for a in results} == {200, 429}  # some had waited for their turn
    assert refused[0].code == "rate_limited"
    assert (refused[0].headers["retry-after"], refused[0].json["error"]["retryAfterMs"]) == (
        "1",
        1000,
    )


def test_connections_that_say_nothing_are_in_nobodys_way(server: Server) -> None:
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
    for i, connection in enumerate(idle):
        connection.sendall(b"GET /v1/me HTTP/1.1\r\nHost: x\r\nAuth" if i % 2 else b"")
    assert server.ask("GET", "/v1/me").status == 200
    # it did not have to wait until the server had enough of them
    assert not select.select(idle, [], [], 0)[0]
    for connection in idle:
        connection.close()


def test_work_that_takes_long_is_no_idleness(own_server: Callable[..., Server]) -> None:
    """Connections that do nothing are closed; a command may be silent for longer than that."""
    # so long that no request is late because the host did something else before it was sent
    server = own_server("--idle", "6")
    sandbox = server.create()
    path = f"/v1/sandboxes/{sandbox}:exec"
    bodies = [{"command": "sleep 9; echo late", "stream": stream} for stream in (False, True)]
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as idle,
        ThreadPoolExecutor(2) as pool,
    ):
        one, stream = pool.map(lambda body: server.ask("POST", path, body), bodies)
        assert idle.recv(1) == b""
    assert one.json["stdout"] == "late\n"
    events = [json.loads(line) for line in stream.body.splitlines()]
    assert [e["type"] for e in events] == ["start", "stdout", "exit"]


@pytest.mark.parametrize(
    "bytes_",
    [b"\x00\xff" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000,
     b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
     b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
    ids=lambda b: repr(b[:12]),
)  # fmt: skip
def test_what_is_no_http(server: Server, bytes_: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        with suppress(OSError):  # it may hang up while something still comes
            connection.sendall(bytes_)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
    assert server.ask("GET", "/v1/me").status == 200


def test_a_socket_instead_of_a_port(own_server: Callable[..., Server], tmp_path: Path) -> None:
    server = own_server(start=False)
    server.key = server.make_key()
    path = server.home / "api.sock"
    process = subprocess.Popen(
        [*server_command(), "--listen", f"unix:{path}"],
        env=server.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline() == f"listening on unix:{path}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        request = f"GET /v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\n\r\n"
        connection.sendall(request.encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    other = str(server.home / "other.db")  # a store has one server
    second = server.command("serve", "--listen", f"unix:{path}", "--store", other)
    assert second.returncode == 3 and "another server listens there" in second.stderr
    process.terminate()
    assert process.wait(60) == 0
    assert not path.exists()


def server_command() -> list[str]:
    from support import PROGRAM

    return [str(PROGRAM), "serve"]


def test_tls(own_server: Callable[..., Server], tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*make, *names, "-keyout", key, "-out", cert], check=True, capture_output=True)
    server = own_server(start=False)
    server.start("--tls-cert", str(cert), "--tls-key", str(key))
    context = ssl.create_default_context(cafile=str(cert))
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=60)
    connection.request("GET", "/v1/me", headers={"Authorization": f"Bearer {server.key}"})
    assert json.loads(connection.getresponse().read())["kind"] == "key"
    connection.close()


# --- the command line -------------------------------------------------------------------------


def test_check(own_server: Callable[..., Server], tmp_path: Path) -> None:
    server = own_server(start=False)
    assert server.command("serve", "--check", "--listen", "127.0.0.1:0").returncode == 0
    for args, says in (
        (["--listen", "nowhere"], "HOST:PORT"),
        (["--listen", "127.0.0.1:0", "--tls-cert", "/none"], "belong together"),
        (["--listen", "127.0.0.1:0", "--tls-cert", "/none", "--tls-key", "/none"], "/none"),
        (["--listen", "127.0.0.1:0", "--require-isolation", "good"], "process"),
    ):
        done = server.command("serve", "--check", *args)
        assert (done.returncode, says in done.stderr) == (2, True), (args, done.stderr)


def test_keys_on_the_command_line(own_server: Callable[..., Server]) -> None:
    server = own_server()
    listed = json.loads(server.command("keys", "ls", "--json").stdout)
    assert [(k["name"], k["revoked"]) for k in listed] == [("test", None)]
    assert server.key not in server.command("keys", "ls").stdout
    assert server.ask("GET", "/v1/me").status == 200
    revoked = json.loads(server.command("keys", "revoke", "--json", listed[0]["id"]).stdout)
    assert revoked["id"] == listed[0]["id"]
    again = json.loads(server.command("keys", "ls", "--json").stdout)
    assert again[0]["revoked"] == revoked["revoked"]
    check_error(server.ask("GET", "/v1/me"), 401)  # at once
    assert server.command("keys", "revoke", listed[0]["id"]).returncode == 2
    assert (server.home / "sealmark.db").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("query", "path"), [("limit=%ff", "limit"), ("%ff=1", "(not UTF-8)"), ("label=%ff", "label")]
)
def test_a_query_that_is_no_utf8_is_refused_by_name(server: Server, query: str, path: str) -> None:
    answer = server.ask("GET", f"/v1/sandboxes?{query}")
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert path in [issue["path"] for issue in answer.json["error"]["details"]["issues"]]


def test_an_upload_that_is_not_what_was_announced(server: Server, sandbox: str) -> None:
    path = f"/v1/sandboxes/{sandbox}"
    piece = os.urandom(300_000)
    server.run(sandbox, "echo old > file")
    target = {
        "path": "/workspace/file",
        "size": len(piece),
        "sha256": hashlib.sha256(piece).hexdigest(),
    }
    made = server.ask("POST", f"{path}/uploads", target).json["uploadId"]
    upload = f"{path}/uploads/{made}"
    other = b"x" + piece[1:]
    for sent in (piece[:-1], other):
        assert server.ask("PUT", f"{upload}?offset=0", sent).status == 200
        refused = server.ask("POST", f"{upload}:commit", {})
        assert refused.code == "invalid_request"
        assert refused.json["error"]["details"] == {
            "sha256": hashlib.sha256(sent).hexdigest(),
            "size": len(sent),
        }
        assert server.run(sandbox, "cat file; ls -A")["stdout"] == "old\nfile\n"
    # it is there still, and can be mended
    assert server.ask("PUT", f"{upload}?offset=0", piece[:1]).status == 200
    assert server.ask("POST", f"{upload}:commit", {}).status == 200
    digest = server.run(sandbox, "sha256sum < file")["stdout"].split()[0]
    assert digest == target["sha256"]
