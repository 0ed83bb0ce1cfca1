# SPDX-License-Identifier: Apache-2.0
"""Files of uploads that a killed server has left between file and record."""

import hashlib
import uuid
from collections.abc import Callable
from pathlib import Path

from serving import Server


def leave(server: Server) -> Path:
    """A file as a server leaves it that is killed before it has written the record."""
    file = server.home / "uploads" / str(uuid.uuid4())
    file.write_bytes(b"a piece")
    return file


def test_what_a_killed_server_left_is_removed(own_server: Callable[..., Server]) -> None:
    server = own_server("--engine", "fake", "--require-isolation", "none")
    uploads = f"/v1/sandboxes/{server.create()}/uploads"
    body = {"path": "/f", "size": 5, "sha256": hashlib.sha256(b"hello").hexdigest()}
    upload = server.ask("POST", uploads, body).json["uploadId"]
    assert server.ask("PUT", f"{uploads}/{upload}?offset=0", b"hel").status == 200
    server.kill()
    left = leave(server)
    other = server.home / "uploads" / "notes"  # no upload's name: not ours to remove
    other.write_text("x")
    server.start()
    assert not left.exists()
    assert other.exists()
    # an upload that has its record goes on where it was
    assert server.ask("PUT", f"{uploads}/{upload}?offset=3", b"lo").status == 200
    done = server.ask("POST", f"{uploads}/{upload}:commit", {})
    assert done.status == 200, done.body
    assert list((server.home / "uploads").iterdir()) == [other]


def test_uploads_of_another_store_are_left_alone(own_server: Callable[..., Server]) -> None:
    """A server that runs on the same home with a store of its own may be at work on them."""
    first = own_server("--engine", "fake", "--require-isolation", "none")
    theirs = leave(first)
    second = Server(first.home, [*first.options, "--store", str(first.home / "other.db")])
    second.key = "none: it is asked nothing"
    second.start()
    try:
        assert theirs.exists()
    finally:
        assert second.stop() == 0
    assert first.stop() == 0
    first.start()
    assert not theirs.exists()
