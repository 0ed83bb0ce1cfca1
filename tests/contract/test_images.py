# SPDX-License-Identifier: Apache-2.0
"""Builds of images: with the public client on real machines, the rest on engine fake."""

import hashlib
import http.client
import io
import json
import tarfile
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from building import BUILDS, FAILS, HANGS, build, get, recipe, script
from serving import Answer, Server, make_home


@pytest.fixture
def building(own_server: Callable[..., Server]) -> Iterator[Server]:
    """A server whose builds end at once; `script` says how the next one goes."""
    server = own_server("--engine", "fake", "--require-isolation", "none", start=False)
    server.options += ["--script", str(server.home / "script")]
    script(server, BUILDS)
    server.start()
    yield server


def ready(server: Server, **fields: Any) -> Any:
    answer = build(server, **fields)
    assert answer.json.get("state") == "ready", answer.body
    return answer.json


def followed(server: Server, image: str) -> list[Any]:
    answer = server.ask("GET", f"/v1/images/{image}/logs?follow=true")
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.body.splitlines()]


def test_versions_and_tags(building: Server) -> None:
    first = ready(building, name="course", recipe=recipe("echo 1"), labels={"a": "b"})
    assert (first["reference"], first["tags"]) == ("course@1", ["latest"])
    assert first["labels"] == {"a": "b"}
    second = ready(building, name="course", recipe=recipe("echo 2"), tags=["latest", "exam"])
    assert (second["reference"], second["tags"]) == ("course@2", ["exam", "latest"])
    assert get(building, first["id"])["tags"] == []
    for ref, found in (
        ("course", second),
        ("course:exam", second),
        ("course@1", first),
        (first["id"], first),
    ):
        answer = building.ask("GET", f"/v1/images/resolve?ref={ref}")
        assert answer.json["id"] == found["id"], answer.body
    moved = building.ask("POST", f"/v1/images/{first['id']}:tag", {"tag": "exam"})
    assert moved.json["tags"] == ["exam"]
    gone = building.ask("POST", f"/v1/images/{second['id']}:untag", {"tag": "exam"})
    assert (gone.status, gone.code) == (404, "not_found")
    bad = building.ask("POST", f"/v1/images/{first['id']}:tag", {"tag": "7"})
    assert (bad.status, bad.code) == (400, "invalid_request")
    deleted = building.ask("POST", f"/v1/images/{second['id']}:delete", {})
    assert deleted.json["state"] == "deleted"
    log = json.loads(building.command("audit", "--json", "--action", "image.").stdout)
    assert [(e["action"], e["target"]) for e in log] == [("image.deleted", second["id"])]
    assert log[0]["who"].startswith("key:")
    assert get(building, second["id"])["error"]["code"] == "image_not_found"
    # the number of a version is never given again
    third = ready(building, name="course", recipe=recipe("echo 3"))
    assert third["reference"] == "course@3"
    names = building.ask("GET", "/v1/images?name=course&limit=1").json
    assert [i["reference"] for i in names["data"]] == ["course@3"]
    rest = building.ask("GET", f"/v1/images?name=course&cursor={names['nextCursor']}").json
    assert [i["reference"] for i in rest["data"]] == ["course@1"]


def test_the_same_is_there_at_once(building: Server) -> None:
    first = ready(building, name="course", recipe=recipe("echo 1"))
    script(building, FAILS)  # nothing is built again
    again = build(building, name="course", recipe=recipe("echo 1"), tags=["again"])
    assert (again.status, again.json["id"], again.json["cached"]) == (200, first["id"], True)
    assert again.json["tags"] == ["again", "latest"]
    other = build(building, name="other", recipe=recipe("echo 1"))
    assert (other.status, other.json["cached"], other.json["state"]) == (201, True, "ready")
    assert (other.json["reference"], other.json["sha256"]) == ("other@1", first["sha256"])
    # without a name it has one by its contents
    unnamed = build(building, recipe=recipe("echo 1")).json
    assert unnamed["name"].startswith("build-") and unnamed["state"] == "ready"
    failed = build(building, name="course", recipe=recipe("echo 1"), cache=False).json
    assert failed["state"] == "failed"


def test_a_failed_build_takes_no_version(building: Server) -> None:
    ready(building, name="course", recipe=recipe("echo 1"))
    script(building, FAILS)
    failed = build(building, name="course", recipe=recipe("echo 2")).json
    assert (failed["state"], failed["version"]) == ("failed", None)
    assert failed["error"] == "this step failed"
    assert [e["text"] for e in followed(building, failed["id"])[:2]] == [
        "no such package",
        "this step failed",
    ]
    assert building.ask("GET", "/v1/images?state=failed").json["data"][0]["id"] == failed["id"]
    script(building, BUILDS)
    assert ready(building, name="course", recipe=recipe("echo 3"))["reference"] == "course@2"


def test_logs(building: Server) -> None:
    image = ready(building, name="course", recipe=recipe("echo 1"))
    events = followed(building, image["id"])
    lines = [e for e in events if e["type"] == "line"]
    assert {(e["stream"], e["text"]) for e in lines} == {
        ("stdout", "hello"),
        ("stdout", "world"),
        ("stderr", "a warning"),
    }
    assert [e["seq"] for e in lines] == [1, 2, 3]
    assert events[-1]["type"] == "done" and events[-1]["image"]["id"] == image["id"]
    page = building.ask("GET", f"/v1/images/{image['id']}/logs?after=1").json
    assert [e["seq"] for e in page["lines"]] == [2, 3]
    assert (page["nextAfter"], page["done"]) == (3, True)


def test_a_build_is_followed_and_cancelled(building: Server) -> None:
    script(building, HANGS)
    answer = build(building, wait=0, name="course", recipe=recipe("sleep"))
    image = answer.json["id"]
    assert answer.status == 201
    assert answer.json["state"] in ("queued", "building")
    connection = http.client.HTTPConnection("127.0.0.1", building.port, timeout=60)
    connection.request(
        "GET",
        f"/v1/images/{image}/logs?follow=true",
        headers={"Authorization": f"Bearer {building.key}"},
    )
    stream = connection.getresponse()
    assert json.loads(stream.readline())["text"] == "begun"
    assert get(building, image)["state"] == "building"
    tag = building.ask("POST", f"/v1/images/{image}:tag", {"tag": "x"})
    assert (tag.status, tag.code) == (409, "build_in_progress")
    create = building.ask("POST", "/v1/sandboxes", {"image": image})
    assert (create.status, create.code) == (404, "image_not_found")
    deleted = building.ask("POST", f"/v1/images/{image}:delete", {})
    assert (deleted.status, deleted.json["state"]) == (200, "deleted")
    assert json.loads(stream.read().splitlines()[-1])["type"] in ("done", "error")
    connection.close()
    assert not list((building.home / "images").glob(".build-*"))
    assert not list((building.home / "builds").iterdir())


def test_builds_take_turns(own_server: Callable[..., Server], tmp_path: Path) -> None:
    config = tmp_path / "sealmark.yaml"
    config.write_text("images:\n  buildsAtOnce: 1\n  buildsWaiting: 2\n")
    server = own_server(
        *("--engine", "fake", "--require-isolation", "none", "--config", str(config)), start=False
    )
    server.options += ["--script", str(server.home / "script")]
    script(server, HANGS)
    server.start()
    first = build(server, wait=0, name="a", recipe=recipe("1")).json["id"]
    second = build(server, wait=0, name="b", recipe=recipe("2")).json["id"]
    third = build(server, wait=0, name="c", recipe=recipe("3"))
    assert (third.status, third.code) == (409, "build_in_progress")
    assert int(third.headers["retry-after"]) >= 1
    stream = threading.Thread(target=followed, args=(server, second))
    stream.start()
    assert get(server, second)["state"] == "queued"
    script(server, BUILDS)
    server.ask("POST", f"/v1/images/{first}:delete", {})
    stream.join(60)
    assert get(server, second)["state"] == "ready"


def test_a_killed_server_leaves_nothing_half_made(building: Server) -> None:
    script(building, HANGS)
    image = build(building, wait=0, name="course", recipe=recipe("1")).json["id"]
    waiting = build(building, wait=0, name="other", recipe=recipe("1")).json["id"]
    while not list((building.home / "images").glob(".build-*")):
        assert get(building, image)["state"] in ("queued", "building")
    building.kill()
    building.start()
    for left in (image, waiting):
        about = get(building, left)
        assert about["state"] == "failed" and "build it again" in about["error"]
    assert not list((building.home / "images").glob(".build-*"))
    assert not (building.home / "images" / "course").exists()
    script(building, BUILDS)
    assert ready(building, name="course", recipe=recipe("1"))["reference"] == "course@1"


def test_every_wrong_field_is_named(building: Server) -> None:
    answer = build(
        building,
        name="Not A Name",
        tags=["1"],
        recipe={"apt": ["--evil"], "pip": ["x"]},
        image="python:3.12",
        target="x",
        start={"command": "x"},
    )
    assert (answer.status, answer.code) == (400, "invalid_request")
    paths = [i["path"] for i in answer.json["error"]["details"]["issues"]]
    assert paths == ["image", "target", "start", "name", "tags[0]"]
    for fields, path in (
        ({"recipe": {"apt": ["--evil", "ok", "a b"]}}, "recipe.apt[0] recipe.apt[2]"),
        ({"recipe": {"aptt": []}}, "recipe.aptt"),
        ({"recipe": {}, "dockerfile": "FROM default"}, ""),
        ({}, ""),
        ({"recipe": {}, "context": {"archive": {"chunks": ["0" * 64]}}}, "context"),
        ({"recipe": {}, "build": {"memoryMiB": 60000}}, "build.memoryMiB"),
        ({"dockerfile": "FROM default\nCMD x\n"}, "dockerfile"),
    ):
        answer = build(building, name="x", **fields)
        assert (answer.status, answer.code) == (400, "invalid_request"), answer.body
        found = [i["path"] for i in answer.json["error"]["details"]["issues"]]
        assert " ".join(found).startswith(path), found
    assert (
        "Dockerfile:2: CMD is not supported"
        in answer.json["error"]["details"]["issues"][0]["message"]
    )
    passed = ready(building, name="x", dockerfile="FROM default\nCMD x\n", start=None)
    assert passed["reference"] == "x@1"
    missing = build(building, name="x", recipe={"base": "no-such"})
    assert (missing.status, missing.code) == (404, "image_not_found")


def test_keys_take_turns(own_server: Callable[..., Server], tmp_path: Path) -> None:
    config = tmp_path / "sealmark.yaml"
    config.write_text("images:\n  buildsAtOnce: 1\n  buildsWaiting: 2\n")
    server = own_server(
        *("--engine", "fake", "--require-isolation", "none", "--config", str(config)), start=False
    )
    server.options += ["--script", str(server.home / "script")]
    script(server, HANGS)
    server.start()
    first, second = (
        build(server, wait=0, name=name, recipe=recipe(name)).json["id"] for name in "ab"
    )
    assert build(server, wait=0, name="c", recipe=recipe("c")).code == "build_in_progress"
    other = server.make_key()

    def ask(name: str) -> Answer:
        body = {"name": name, "recipe": recipe(name)}
        return server.ask("POST", "/v1/images", body, key=other)

    # whose a name is, is not known before its build has ended
    assert (ask("b").status, ask("b").code) == (409, "build_in_progress")
    third = ask("d")
    assert third.status == 201, third.body
    assert ask("e").code == "build_in_progress"
    server.ask("POST", f"/v1/images/{first}:delete", {})
    path = f"/v1/images/{third.json['id']}"
    while server.ask("GET", path, key=other).json["state"] != "building":
        assert get(server, second)["state"] == "queued"
    server.ask("POST", f"{path}:delete", {}, key=other)
    server.ask("POST", f"/v1/images/{second}:delete", {})


def test_names_have_owners(building: Server) -> None:
    image = ready(building, name="course", recipe=recipe("1"))
    other = building.make_key()
    account = building.make_key("--account-wide")

    def ask(key: str, method: str, path: str, body: Any = None) -> Answer:
        return building.ask(method, path, body, key=key)

    assert ask(other, "GET", f"/v1/images/{image['id']}").code == "image_not_found"
    assert ask(other, "GET", "/v1/images/resolve?ref=course").code == "image_not_found"
    for unknown in (
        ask(other, "POST", "/v1/images", {"recipe": {"base": "nonsuch", "commands": ["true"]}}),
        ask(other, "POST", "/v1/sandboxes", {"image": "nonsuch"}),
        ask(other, "GET", "/v1/images/resolve?ref=nonsuch"),
    ):  # neither what others have is said, nor where
        assert (unknown.status, unknown.code) == (404, "image_not_found")
        assert b"nonsuch" in unknown.body
        assert b"course" not in unknown.body
        assert str(building.home).encode() not in unknown.body
    assert ask(other, "GET", "/v1/images?name=course").json["data"] == []
    assert ask(other, "POST", f"/v1/images/{image['id']}:delete", {}).code == "image_not_found"
    taken = ask(other, "POST", "/v1/images", {"name": "course", "recipe": recipe("2")})
    assert (taken.status, taken.code) == (409, "name_taken")
    based = ask(other, "POST", "/v1/images", {"name": "x", "recipe": {"base": "course"}})
    assert (based.status, based.code) == (404, "image_not_found")
    assert ask(account, "GET", f"/v1/images/{image['id']}").json["id"] == image["id"]
    # what the operator installed is everybody's to use and nobody's to change
    default = ask(other, "GET", "/v1/images/resolve?ref=default").json
    for verb, body in (("tag", {"tag": "x"}), ("untag", {"tag": "latest"}), ("delete", {})):
        answer = ask(account, "POST", f"/v1/images/{default['id']}:{verb}", body)
        assert (answer.status, answer.code) == (403, "forbidden")
    answer = ask(account, "POST", "/v1/images", {"name": "default", "recipe": recipe("1")})
    assert (answer.status, answer.code) == (409, "name_taken")


def test_images_have_a_quota(own_server: Callable[..., Server], tmp_path: Path) -> None:
    config = tmp_path / "sealmark.yaml"
    config.write_text("images:\n  totalMiB: 1\n")
    server = own_server(
        *("--engine", "fake", "--require-isolation", "none", "--config", str(config)), start=False
    )
    server.options += ["--script", str(server.home / "script")]
    script(server, BUILDS)
    big = server.home / "images" / "big" / "1"
    big.mkdir(parents=True)
    with (big / "rootfs.erofs").open("wb") as file:
        file.truncate(2 << 20)
    about = {"name": "big", "version": 1, "id": str(uuid.uuid4()), "size_bytes": 2 << 20}
    about |= {"sha256": "0" * 64, "recipe_digest": "0" * 12, "packages": {}}
    (big / "manifest.json").write_text(json.dumps(about))
    server.start()
    answer = build(server, name="a", recipe=recipe("1"))
    assert (answer.status, answer.code) == (409, "quota_exceeded")
    account = server.make_key("--account-wide")
    path = f"/v1/images/{about['id']}:delete"
    assert server.ask("POST", path, {}, key=account).status == 200
    assert ready(server, name="a", recipe=recipe("1"))["reference"] == "a@1"


def test_a_context_is_sent_in_pieces(building: Server) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        info = tarfile.TarInfo("a.txt")
        info.size = 5
        archive.addfile(info, io.BytesIO(b"hello"))
    piece = packed.getvalue()
    digest = hashlib.sha256(piece).hexdigest()
    missing = "/v1/images/context/missing"
    assert building.ask("POST", missing, {"digests": [digest]}).json == {"missing": [digest]}
    fields: dict[str, Any] = {
        "name": "x",
        "dockerfile": "FROM default\nCOPY a.txt /\n",
        "context": {"archive": {"sha256": digest, "size": len(piece), "chunks": [digest]}},
    }
    early = build(building, **fields)
    assert early.json["error"]["details"]["issues"][0]["path"] == "context.archive.chunks[0]"
    # what another key has sent is not there, and cannot be found out
    put, other = f"/v1/images/context/{digest}", building.make_key()
    assert building.ask("PUT", put, piece, key=other).status == 200
    assert building.ask("POST", missing, {"digests": [digest]}).json == {"missing": [digest]}
    assert build(building, **fields).status == 400
    wrong = building.ask("PUT", f"/v1/images/context/{'0' * 64}", piece)
    assert (wrong.status, wrong.code) == (400, "invalid_request")
    assert building.ask("PUT", f"/v1/images/context/{digest}", piece).status == 200
    assert building.ask("POST", missing, {"digests": [digest]}).json == {"missing": []}
    bad = building.ask("POST", missing, {"digests": ["../../etc/passwd"]})
    assert (bad.status, bad.code) == (400, "invalid_request")
    assert ready(building, **fields)["reference"] == "x@1"


# --- with machines ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(has_machines: None) -> Iterator[Server]:
    server = Server(make_home(), ["--rate", "2000"])
    server.start()
    yield server
    server.close()


@pytest.fixture
def client(real: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from withruntime import Runtime

    monkeypatch.setenv("RUNTIME_API_URL", real.url)
    monkeypatch.setenv("RUNTIME_AUTH_URL", real.url)
    monkeypatch.setenv("RUNTIME_API_KEY", real.key)
    with Runtime() as runtime:
        yield runtime


def test_the_image_of_a_course(client: Any) -> None:
    """The program that must run: packages from Debian and PyPI, then a sandbox with them."""
    said: list[str] = []
    image = client.images.build(
        name="cs101-grader",
        recipe={
            "apt": ["openjdk-21-jdk-headless", "sl"],
            "pip": ["pytest", "hypothesis"],
            "files": {"/etc/course": "cs101\n", "start.sh": b"#!/bin/sh\n"},
            "env": {"COURSE": "it's cs101"},
        },
        on_log=lambda line: said.append(line["text"]),
    )
    assert image["state"] == "ready", image
    assert any("hypothesis" in line for line in said)
    with client.sandboxes.create(image="cs101-grader", memory_mib=512) as box:
        assert box.info["image"] == "cs101-grader@1"
        assert "openjdk" in box.exec(["java", "-version"]).stderr
        shown = box.exec(
            "python3 -c 'import hypothesis, pytest'; test -x /usr/games/sl && cat /etc/course; "
            'echo "$COURSE"; cat start.sh; pwd; cat /etc/resolv.conf; ls -d /.build'
        )
        assert shown.stdout == "cs101\nit's cs101\n#!/bin/sh\n/workspace\n" + (
            box.exec("cat /etc/resolv.conf").stdout
        )
        # nothing of the machine that built it is left
        assert "/.build" in shown.stderr
        assert "certificates.pem" not in box.exec("env").stdout


def test_a_dockerfile_with_its_folder(client: Any, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "sub" / "b c.txt").write_text("b")
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "left-out").write_text("x")
    (tmp_path / ".dockerignore").write_text("left-out\n")
    image = client.images.build(
        name="docker",
        context_dir=str(tmp_path),
        build_args={"WHO": "world"},
        dockerfile="""\
FROM default
ARG WHO=nobody
ENV GREETING="hello $WHO"
WORKDIR /srv/app
COPY . .
COPY --chown=runtime:runtime --chmod=600 a.* /own/
RUN <<EOF
set -e
./run.sh >made
! test -e left-out
echo "$GREETING" >>made
EOF
USER runtime
RUN id -un >/own/who
""",
    )
    assert image["state"] == "ready", image
    with client.sandboxes.create(image=image["id"], memory_mib=256) as box:
        shown = box.exec(
            "pwd; cat made sub/b\\ c.txt; stat -c '%U %a %s' /own/a.txt; cat /own/who; "
            'echo "$GREETING $WHO"'
        )
        assert shown.stdout == (
            "/srv/app\nran\nhello world\nb" + "runtime 600 1\nruntime\nhello world \n"
        ), shown


def test_a_step_that_fails(client: Any) -> None:
    from withruntime import RuntimeError as ClientError

    with pytest.raises(ClientError) as failed:
        client.images.build(
            name="docker", dockerfile="FROM default\nCOPY gone /x\n", files={"here": "x"}
        )
    assert failed.value.code == "image_build_failed"
    assert "status 1" in str(failed.value)
    lines = client.images.logs(client.images.list(state="failed").data[0]["id"])["lines"]
    assert "gone: is not in the context" in [line["text"] for line in lines]


def test_too_little_memory_is_said(client: Any) -> None:
    """mkfs.erofs hangs where its disk is full: it is not begun there."""
    from withruntime import RuntimeError as ClientError

    with pytest.raises(ClientError) as failed:
        client.images.build(name="tight", recipe={}, build={"memory_mib": 1024})
    assert "build with more memory" in str(failed.value)
