# SPDX-License-Identifier: Apache-2.0
"""The package as it is shipped, and what no case can say."""

import io
import logging
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import IO

import pytest
from calls import Client
from scripting import Scripted

import sealmark
from sealmark._archive import unpack
from sealmark._protocol import Lines, Request, capacity_delay, pause, retry_delay
from sealmark._records import Collector, Exited, Output
from sealmark._settings import resolve

PACKAGE = Path(__file__).resolve().parents[1]
REPOSITORY = PACKAGE.parents[1]


def test_the_blocking_client_is_in_step() -> None:
    done = subprocess.run(
        [sys.executable, PACKAGE / "scripts" / "make_sync.py", "--check"], capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_types() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "src", "scripts", "examples"],
        cwd=PACKAGE,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_is_whole(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        + ["--disable-pip-version-check", "-w", tmp_path, PACKAGE],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"sealmark-{sealmark.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    source = PACKAGE / "src"
    assert {str(p.relative_to(source)) for p in source.rglob("*.py")} | {"sealmark/py.typed"} <= {
        name for name in names if name.startswith("sealmark/")
    }


def test_settings_come_from_the_environment() -> None:
    env = {"RUNTIME_API_KEY": "r", "SEALMARK_API_URL": "http://a:1/", "RUNTIME_API_URL": "http://b"}
    found = resolve(None, None, None, 1, 0, 0, env)
    assert (found.api_key, found.base_url, found.auth_url) == ("r", "http://a:1", "http://a:1")
    found = resolve(None, None, None, 1, 0, 0, {**env, "SEALMARK_API_KEY": "s"})
    assert found.api_key == "s"
    found = resolve("k", "unix:/run/s.sock", "https://people", 1, 0, 0, {})
    assert (found.socket_path, found.auth_url) == ("/run/s.sock", "https://people")


@pytest.mark.parametrize("url", ["", "unix:relative", "ftp://x", "http://", "http://x?key=1"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(sealmark.InvalidRequestError):
        resolve("k", url or "nonsense", None, 1, 0, 0, {})


def test_the_key_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with sealmark.Runtime("hidden-key", "http://127.0.0.1:9", max_retries=1) as runtime:
        assert "hidden" not in f"{runtime!r} {runtime.settings!r}"
        with pytest.raises(sealmark.ConnectionError) as failed:
            runtime.me()
    assert failed.value.retryable
    chain = [failed.value, failed.value.__cause__, failed.value.__context__]
    assert "hidden" not in " ".join(f"{error!r} {error}" for error in chain) + caplog.text
    for bad in ("hidden\nkey", "hidden ключ"):
        with pytest.raises(sealmark.AuthenticationError) as refused:
            sealmark.Runtime(bad)
        assert "hidden" not in f"{refused.value!r} {refused.value}"


def test_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEALMARK_API_KEY", "RUNTIME_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(sealmark.AuthenticationError, match="no key") as refused:
        sealmark.Runtime()
    assert refused.value.code == "no_key"


def test_waits_grow_to_a_ceiling_and_differ() -> None:
    plain = sealmark.SealmarkError("", retryable=True)
    waits = [pause(plain, attempt, lambda: 1.0) or 0 for attempt in range(12)]
    assert waits[:3] == [0.1, 0.2, 0.4]
    assert waits == sorted(waits)
    assert waits[-1] == 5.0
    assert pause(plain, 3, lambda: 0.0) != pause(plain, 3, lambda: 0.9)
    named = sealmark.SealmarkError("", retryable=True, retry_after_ms=2000)
    assert pause(named, 0, lambda: 0.0) == 2.0
    assert (pause(named, 9, lambda: 1.0) or 0) > 2.0


def test_the_wait_for_room_takes_the_time_named_and_no_more() -> None:
    full = sealmark.ConflictError("", code="no_capacity", retryable=True, retry_after_ms=60_000)
    assert capacity_delay(full, 0, 600.0, lambda: 0.0) == 60.0
    assert capacity_delay(full, 0, 6.0, lambda: 1.0) == 6.0


def make_archive(**files: str) -> IO[bytes]:
    out = tempfile.TemporaryFile()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    out.seek(0)
    return out


def test_a_folder_that_is_there_is_merged_into(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "old").write_text("old")
    (tmp_path / "d" / "both").write_text("old")
    (tmp_path / "elsewhere").write_text("elsewhere")
    (tmp_path / "d" / "link").symlink_to("../elsewhere")
    with make_archive(d__both="new", d__new="new", d__link="new") as archive:
        unpack(archive, tmp_path, "refuse")
    found = {p.name: p.read_text() for p in (tmp_path / "d").iterdir()}
    assert found == {"old": "old", "both": "new", "new": "new", "link": "new"}
    assert (tmp_path / "elsewhere").read_text() == "elsewhere"


def test_what_is_in_the_way_stops_a_merge_before_it_begins(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (target / "folder").mkdir(parents=True)
    (target / "link").symlink_to(tmp_path)
    for files in ({"a": "1", "folder": "2"}, {"a": "1", "link__x": "2"}):
        with make_archive(**files) as archive, pytest.raises(sealmark.ArchiveError):
            unpack(archive, target, "refuse")
        assert sorted(p.name for p in target.iterdir()) == ["folder", "link"]
        assert [p.name for p in tmp_path.iterdir()] == ["target"]


def test_what_could_be_done_twice_is_not_sent_again() -> None:
    lost = sealmark.ConnectionError("", retryable=True, details={"sent": True})
    unsent = sealmark.ConnectionError("", retryable=True, details={"sent": False})
    once = Request("POST", "/", once=True)
    assert retry_delay(once, lost, 0, 4) is None
    assert retry_delay(once, unsent, 0, 4) is not None
    assert retry_delay(Request("POST", "/"), lost, 0, 4) is not None
    assert retry_delay(once, unsent, 4, 4) is None


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_stream_that_should_have_ended_ends(scripted: Scripted, asynchronous: bool) -> None:
    """A server that sends an empty line now and then is not silent, but is no command either."""
    path = "/v1/sandboxes/b/x"
    request = {"method": "GET", "path": path}
    scripted.begin([{"request": request, "answer": {"endless": True, "text": "{}\n"}}])
    client = Client(scripted.url, {"maxRetries": 0}, asynchronous)
    try:
        with pytest.raises(sealmark.ConnectionError) as late:
            client.all(
                client.runtime._transport.lines(Request("GET", path, timeout_s=0.3, ends=True))
            )
        assert late.value.code == "timeout"
    finally:
        client.close()


def test_lines_come_in_any_pieces() -> None:
    whole = '{"a":"é"}\n\n{"b":2}\r\n{"c":3}'.encode()
    for size in range(1, len(whole) + 1):
        lines = Lines()
        found = []
        for at in range(0, len(whole), size):
            found += lines.feed(whole[at : at + size])
        assert found + lines.finish() == [{"a": "é"}, {"b": 2}, {"c": 3}]


def test_followed_output_is_kept_up_to_a_limit() -> None:
    collector = Collector("p")
    piece = "x" * (1 << 20)
    for index in range(17):
        collector.take(Output("stdout", piece, piece.encode(), index << 20))
    collector.take(Exited(0, "exited", False, 1, None))
    result = collector.result()
    assert (len(result.stdout), result.stdout_truncated) == (16 << 20, True)
    assert (result.stderr, result.stderr_truncated) == ("", False)
