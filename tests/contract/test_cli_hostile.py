# SPDX-License-Identifier: Apache-2.0
"""The command line against servers that lie, break off, never end, or are full."""

import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_server import Answer, FakeServer, Request, drop, fail, raw, say
from support import PROGRAM, wait_until

USAGE, OURS = 2, 3
BOX = "11111111-2222-3333-4444-555555555555"
Done = subprocess.CompletedProcess[bytes]
Make = Callable[..., FakeServer]


@pytest.fixture
def fake() -> Iterator[Make]:
    made: list[FakeServer] = []

    def make(*answers: Answer) -> FakeServer:
        made.append(FakeServer(list(answers)))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Done]:
    def run(server: FakeServer, *args: str, **env: str) -> Done:
        return subprocess.run(
            [PROGRAM, *args], env=environment(server, tmp_path, **env), cwd=tmp_path,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
        )  # fmt: skip

    return run


def environment(server: FakeServer, folder: Path, **env: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SEALMARK_", "RUNTIME_"))}
    ours = {"SEALMARK_API_URL": server.url, "SEALMARK_API_KEY": "key-of-the-test"}
    return {**kept, "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": str(folder / "config"), **ours, **env}


def sandbox(**more: Any) -> dict[str, Any]:
    return {"id": BOX, "state": "running", "diskMiB": 16, **more}


# --- answers that are none ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda _, c: c.sendall(b"\0\1\2 what?\r\n\r\n"), "cannot reach"),
        (say(200, b"<html>"), "not JSON"),
        (say(502, b"<html>\x1b[2J"), "status 502"),
        (say(200, b"x" * (17 << 20)), "more than 16 MiB"),
        (say(302, b"", "Location: http://127.0.0.1:1/"), "redirections are not followed"),
        (say(200, b"[" * 100000), "not JSON"),
        (fail(500, "internal_error", "It broke"), "It broke (internal_error, request id r-1)"),
        # the command line's own hint where it knows one for the code; else the server's
        (fail(401, "unauthorized", "No key", hint="GET it."), "No key. Log in (sealmark login"),
        (fail(401, "unheard_of", "No key", hint="Log in."), "No key. Log in. (unheard_of,"),
        (
            fail(
                500,
                "wrong",
                "a is b (and more).",
                details={"issues": [{"path": p, "message": "is b"} for p in "ac"]},
            ),
            "a is b (and more); c: is b (wrong, request id r-1)\n",  # each once
        ),
    ],
    ids="garbage html gateway huge redirect deep failure key hint field".split(),
)  # fmt: skip
def test_bad_answers(fake: Make, run: Callable[..., Done], answer: Answer, says: str) -> None:
    done = run(fake(answer), "sandbox", "ls")
    assert done.returncode == OURS
    assert says in done.stderr.decode()
    assert b"\x1b" not in done.stderr
    assert done.stdout == b""


def test_escapes_are_harmless(fake: Make, run: Callable[..., Done]) -> None:
    evil = "a\x1b]0;owned\x07\x9b2J\u202e\r"
    rows = [sandbox(id=evil, name=evil, labels={evil: evil})]
    for answer in (
        say(200, {"data": rows}),
        fail(404, evil, evil, hint=evil, details={"issues": [{"path": evil, "message": evil}]}),
    ):
        for args in (["ls"], ["ls", "-q"], ["ls", "--json"], ["get", BOX], ["create", "--detach"]):
            done = run(fake(answer), "sandbox", *args)
            for text in (done.stdout, done.stderr):
                assert not any(byte in text for byte in (b"\x1b", b"\x07", b"\r"))
                assert "\x9b" not in text.decode() and "\u202e" not in text.decode()


def test_a_list_without_end(fake: Make, run: Callable[..., Done], tmp_path: Path) -> None:
    def endless(_: Request, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\n\r\n[")
        while True:
            connection.sendall(b" " * 65536)

    assert b"more than 16 MiB" in run(fake(endless), "sandbox", "ls").stderr


def test_ctrl_c_while_nothing_comes(fake: Make, tmp_path: Path) -> None:
    server = fake(lambda _, connection: connection.recv(1) and None)
    command = subprocess.Popen(
        [PROGRAM, "sandbox", "ls"], env=environment(server, tmp_path), stderr=subprocess.PIPE
    )
    wait_until(lambda: server.asked, "a request")
    command.send_signal(signal.SIGINT)
    assert command.wait(60) == 130
    assert command.stderr and command.stderr.read() == b""


# --- streams --------------------------------------------------------------------------------------


def lines(*events: Any, cut: bool = False) -> Answer:
    body = b"".join(e if isinstance(e, bytes) else json.dumps(e).encode() + b"\n" for e in events)
    length = f"Content-Length: {len(body) + cut}"
    return lambda _, c: c.sendall(f"HTTP/1.1 200 X\r\n{length}\r\n\r\n".encode() + body)


START = {"type": "start", "processId": "p"}
END = {"type": "exit", "exitCode": 5, "state": "exited"}


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (lines(START, END), 5, ""),
        (lines(START, END, cut=True), 5, ""),
        (lines(START, cut=True), OURS, "cannot reach"),
        (lines(START), OURS, "ends before the process"),
        (lines(), OURS, "before the command had started"),
        (lines(b"garbage\n"), OURS, "no JSON"),
        (lines(b"{" + b" " * (9 << 20)), OURS, "without an end"),
        (lines({"type": "stdout", "data": "", "base64": "%%%%"}), OURS, "not base64"),
        (lines({"type": "stdout"}, {"type": "news"}, END), 5, ""),
        (lines({"type": "error", "error": {"code": "x", "status": 409}}), 2, "no reason (x)"),
        (lines({**END, "exitCode": None, "signal": 15}), 143, ""),
        (lines({**END, "exitCode": None, "timedOut": True}), 124, "time limit"),
    ],
)  # fmt: skip
def test_streams(
    fake: Make, run: Callable[..., Done], answer: Answer, status: int, says: str
) -> None:
    server = fake(answer)
    done = run(server, "sandbox", "exec", BOX, "true")
    assert done.returncode == status
    assert says in done.stderr.decode()
    # a command that may have run is not run again
    assert [r.method for r in server.asked].count("POST") == 1


def test_a_lost_connection_is_made_again(fake: Make, run: Callable[..., Done]) -> None:
    def out(data: str, offset: int) -> dict[str, Any]:
        return {"type": "stdout", "data": data, "offset": offset}

    server = fake(
        lines(START, out("ab", 0), cut=True),
        drop,
        lines(out("c", 2), {"type": "continue", "processId": "p", "cursor": 3}),
        lines(out("ö", 3), cut=True),
        lines(END),
    )
    done = run(server, "sandbox", "exec", BOX, "true")
    assert (done.returncode, done.stdout.decode(), done.stderr) == (5, "abcö", b"")
    asked = [r.path.split("/")[-1] for r in server.asked[1:]]
    assert asked == [f"output?cursor={n}&follow=true" for n in (2, 2, 3, 5)]


def test_ctrl_c_before_the_command_has_a_name(fake: Make, tmp_path: Path) -> None:
    """What the server is about to begin is waited for, and ended there."""
    go = threading.Event()

    def late(_: Request, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 X\r\n\r\n")
        assert go.wait(60)
        connection.sendall(json.dumps(START).encode() + b"\n")
        connection.recv(1)

    server = fake(late, say(200, {}))
    command = subprocess.Popen(
        [PROGRAM, "sandbox", "exec", BOX, "true"],
        env=environment(server, tmp_path),
        stdin=subprocess.DEVNULL,
    )
    wait_until(lambda: server.asked, "a request")
    command.send_signal(signal.SIGINT)
    go.set()
    assert command.wait(60) == 130
    assert [r.path.split("/")[-1] for r in server.asked] == [f"{BOX}:exec", "p:signal"]
    assert server.asked[1].json == {"signal": "SIGKILL"}


def test_bytes_are_exact(fake: Make, run: Callable[..., Done]) -> None:
    raw_bytes = {"type": "stdout", "data": "\ufffd\u0000", "base64": "/wA=", "offset": 0}
    done = run(fake(lines(START, raw_bytes, END)), "sandbox", "exec", BOX, "true")
    assert done.stdout == b"\xff\0"


# --- again, with the same key ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [drop, fail(503, "busy"), fail(429, "rate_limited", retryAfterMs=10)],
    ids=["cut", "503", "429"],
)  # fmt: skip
def test_a_change_is_sent_again_with_its_key(
    fake: Make, run: Callable[..., Done], first: Answer
) -> None:
    server = fake(first, first, say(201, sandbox()))
    done = run(server, "sandbox", "create")
    assert (done.returncode, done.stdout.decode()) == (0, BOX + "\n")
    keys = [r.headers["idempotency-key"] for r in server.asked]
    assert len(keys) == 3 and len(set(keys)) == 1
    assert len({r.body for r in server.asked}) == 1


@pytest.mark.parametrize("code", ["no_capacity", "quota_exceeded", "trial_busy"])
def test_waiting_for_room(fake: Make, run: Callable[..., Done], code: str) -> None:
    full = fail(409, code, retryAfterMs=10)
    server = fake(*[full] * 9, say(201, sandbox()))
    assert run(server, "sandbox", "create", "--wait", "30s").returncode == 0
    assert len({r.headers["idempotency-key"] for r in server.asked}) == 1
    server = fake(full)
    done = run(server, "sandbox", "create")
    assert done.returncode == USAGE and code in done.stderr.decode()
    assert len(server.asked) == 1


def test_the_key_goes_to_its_server_only(fake: Make, run: Callable[..., Done]) -> None:
    other = fake(say(200, {"data": []}))
    server = fake(say(307, b"", f"Location: {other.url}/v1/sandboxes"))
    assert run(server, "sandbox", "ls").returncode == OURS
    assert server.asked[0].headers["authorization"] == "Bearer key-of-the-test"
    assert other.asked == []


# --- archives -------------------------------------------------------------------------------------


def tar(*members: tuple[str, dict[str, Any]], data: bytes = b"evil\n", gzip: bool = True) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz" if gzip else "w") as archive:
        for name, fields in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o644
            for key, value in fields.items():
                setattr(info, key, value)
            info.size = info.size or (len(data) if info.isreg() else 0)
            archive.addfile(
                info, io.BytesIO(data.ljust(info.size, b"\0")) if info.isreg() else None
            )
    return out.getvalue()


FILE: dict[str, Any] = {}
FOLDER = {"type": tarfile.DIRTYPE, "mode": 0o755}


def link(to: str) -> dict[str, Any]:
    return {"type": tarfile.SYMTYPE, "linkname": to}


def answers_with(archive: bytes, kind: str = "directory") -> list[Answer]:
    entry = {"exists": True, "type": kind, "mode": "644", "size": 5}
    return [say(200, sandbox()), say(200, entry), say(200, archive)]


def copy(fake: Make, run: Callable[..., Done], archive: bytes) -> Done:
    return run(fake(*answers_with(archive)), "sandbox", "cp", f"{BOX}:/w", "target/in")


@pytest.mark.parametrize(
    "members",
    [
        [("good", FILE), ("../evil", FILE)],
        [("good", FILE), ("a/../../evil", FILE)],
        [("good", FILE), ("/tmp/sealmark-evil", FILE)],
        [("good", FILE), ("..", FOLDER)],
        [("good", FILE), (".", link("/tmp"))],
        [("good", FILE), ("a/" * 200 + "deep", FILE)],
    ],
    ids=["parent", "through", "absolute", "folder", "itself", "deep"],
)  # fmt: skip
def test_an_archive_that_would_leave_the_target_writes_nothing(
    fake: Make, run: Callable[..., Done], tmp_path: Path, members: Any
) -> None:
    (tmp_path / "target").mkdir()
    done = copy(fake, run, tar(*members))
    assert done.returncode == OURS
    assert b"nothing was unpacked" in done.stderr
    assert [*tmp_path.rglob("*")] == [tmp_path / "target"]
    assert not Path("/tmp/sealmark-evil").exists()


def test_links_are_not_followed_and_stay_inside(
    fake: Make, run: Callable[..., Done], tmp_path: Path
) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "secret").write_text("secret")
    good = tar(("a/f", FILE), ("a/in", link("../a/f")), ("b", link("a")))
    assert copy(fake, run, good).returncode == 0
    inside = tmp_path / "target" / "in"
    assert (inside / "b" / "in").read_bytes() == b"evil\n"
    bad = tar(
        ("l1", link("/etc/passwd")),
        ("l2", link("../../secret")),
        ("here", link(".")),
        ("l3", link("here/../../secret")),
        ("hard", {"type": tarfile.LNKTYPE, "linkname": "../../secret"}),
        ("pipe", {"type": tarfile.FIFOTYPE}),
        ("kept", FILE),
    )
    done = copy(fake, run, bad)
    assert done.returncode == 1
    assert b"5 links" in done.stderr
    assert sorted(p.name for p in inside.iterdir()) == ["a", "b", "here", "kept"]
    # through a link of the archive, and through one that was there: refused, nothing written there
    for members in ([("d", link("a")), ("d/evil", FILE)], [("b/evil", FILE)]):
        done = copy(fake, run, tar(*members))
        assert done.returncode == OURS
        assert b"links are not followed" in done.stderr
    assert sorted(p.name for p in (inside / "a").iterdir()) == ["f", "in"]


def test_modes_and_bombs(fake: Make, run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    assert copy(fake, run, tar(("s", {"mode": 0o6755}))).returncode == 0
    assert (tmp_path / "target" / "in" / "s").stat().st_mode & 0o7777 == 0o755
    # one that says it holds more than any sandbox of this size can
    header = tarfile.TarInfo("bomb")
    header.size = 1 << 40
    bomb = header.tobuf(tarfile.PAX_FORMAT) + bytes(1 << 16)
    done = copy(fake, run, bomb)
    assert done.returncode == OURS and b"more than the sandbox can" in done.stderr
    for broken in (tar(("f", FILE))[:-20], b"no archive", b""):
        done = copy(fake, run, broken)
        assert done.returncode == OURS, broken
    assert [p.name for p in (tmp_path / "target" / "in").iterdir()] == ["s"]


def test_a_file_that_comes_short_is_not_there(
    fake: Make, run: Callable[..., Done], tmp_path: Path
) -> None:
    entry = {"exists": True, "type": "file", "mode": "644", "size": 100}
    short = raw(200, b"x" * 50).replace(b"Content-Length: 50", b"Content-Length: 100")
    (tmp_path / "old").write_text("old")
    server = fake(say(200, sandbox()), say(200, entry), lambda _, c: c.sendall(short))
    done = run(server, "sandbox", "cp", f"{BOX}:/w", "old")
    assert done.returncode == OURS
    assert (tmp_path / "old").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


# --- the login's file -----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["open to others", "a link", "damaged"])
def test_a_login_that_may_be_known_to_others_is_refused(
    fake: Make, run: Callable[..., Done], tmp_path: Path, how: str
) -> None:
    folder = tmp_path / "config" / "sealmark"
    folder.mkdir(parents=True)
    file = folder / "credentials.json"
    server = fake(say(200, {"data": []}))
    good = json.dumps({"current": server.url, "servers": {server.url: {"key": "k"}}})
    file.write_text(good)
    file.chmod(0o600)
    nothing = {"SEALMARK_API_URL": "", "SEALMARK_API_KEY": ""}
    assert run(server, "sandbox", "ls", **nothing).returncode == 0
    assert server.asked[0].headers["authorization"] == "Bearer k"
    if how == "open to others":
        file.chmod(0o640)
    elif how == "damaged":
        file.write_text(good[:-1])
    else:
        file.rename(folder / "other")
        file.symlink_to("other")
    done = run(server, "sandbox", "ls", **nothing)
    assert done.returncode == USAGE
    assert b"credentials.json" in done.stderr
    assert len(server.asked) == 1


# --- builds ---------------------------------------------------------------------------------------

IMAGE = {"id": BOX, "name": "im", "version": "3", "state": "building"}


class Builder:
    """The routes of a build: what was sent, and how it ends."""

    def __init__(self, *events: Any, image: dict[str, Any] = IMAGE) -> None:
        self.events, self.image = events, image
        self.body: Any = None
        self.pieces: dict[str, bytes] = {}
        self.deleted = False

    def __call__(self, request: Request, connection: socket.socket) -> None:
        if request.path.endswith("/missing"):
            say(200, {"missing": request.json["digests"]})(request, connection)
        elif request.method == "PUT":
            self.pieces[request.path.rsplit("/", 1)[1]] = request.body
            say(200, {})(request, connection)
        elif request.path.endswith(":delete"):
            self.deleted = True
            say(200, {})(request, connection)
        elif request.method == "POST":
            self.body = request.json
            say(201, self.image)(request, connection)
        elif self.events:
            lines(*self.events)(request, connection)
        else:
            connection.sendall(b"HTTP/1.1 200 X\r\n\r\n")
            connection.recv(1)


def line(seq: int, text: str) -> dict[str, Any]:
    return {"type": "line", "seq": seq, "text": text}


def done_with(**more: Any) -> dict[str, Any]:
    return {"type": "done", "image": {**IMAGE, **more}}


def test_a_build_with_its_context(fake: Make, run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "context").mkdir()
    data = os.urandom((2 << 20) + 5)
    (tmp_path / "context" / "big").write_bytes(data)
    (tmp_path / "Dockerfile").write_text("FROM default\nCOPY . /x\n")
    builder = Builder(line(1, "step \x1b[2J"), line(2, "two"), done_with(state="ready"))
    options = ("--context", "context", "-t", "exam", "--arg", "A=b", "-m", "2G", "--again")
    done = run(fake(builder), "image", "build", "im", "-f", "Dockerfile", *options)
    assert (done.returncode, done.stdout) == (0, b"im@3\n"), done.stderr
    assert b"two\n" in done.stderr and b"\x1b" not in done.stderr
    body = builder.body
    assert body["dockerfile"].startswith("FROM default")
    assert (body["name"], body["tags"]) == ("im", ["latest", "exam"])
    assert (body["buildArgs"], body["cache"]) == ({"A": "b"}, False)
    assert body["build"]["memoryMiB"] == 2048
    archive = b"".join(builder.pieces[d] for d in body["context"]["archive"]["chunks"])
    assert len(archive) == body["context"]["archive"]["size"] > 2 << 20
    assert all(hashlib.sha256(piece).hexdigest() == d for d, piece in builder.pieces.items())
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        member = packed.extractfile("big")
        assert member and member.read() == data


def test_a_build_that_fails(fake: Make, run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("apt: [jq]\n")
    builder = Builder(line(1, "no"), done_with(state="failed", error="step 1 failed"))
    done = run(fake(builder), "image", "build", "im", "-q", "-f", "recipe.yaml")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"step 1 failed" in done.stderr
    assert builder.body["recipe"] == {"apt": ["jq"]}
    # one that is there already is not waited for
    builder = Builder(image={**IMAGE, "state": "ready"})
    done = run(fake(builder), "image", "build", "im", "--json", "-f", "recipe.yaml")
    assert json.loads(done.stdout)["version"] == "3"


def test_ctrl_c_ends_the_build_there(fake: Make, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("apt: [jq]\n")
    builder = Builder()
    server = fake(builder)
    command = subprocess.Popen(
        [PROGRAM, "image", "build", "im", "-f", "recipe.yaml"],
        env=environment(server, tmp_path),
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: len(server.asked) >= 2, "the second request")
    command.send_signal(signal.SIGINT)
    assert command.wait(60) == 130
    assert builder.deleted
