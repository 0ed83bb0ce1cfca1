# SPDX-License-Identifier: Apache-2.0
"""sealmark backup: a whole copy of the store or none, and what it refuses."""

import json
import sqlite3
from pathlib import Path

import pytest

from support import Sealmark

USAGE, OURS = 2, 3


@pytest.fixture
def store(sealmark: Sealmark) -> Path:
    for i in range(20):
        assert sealmark.run("keys", "create", f"key {i}").returncode == 0
    return sealmark.home / "sealmark.db"


def names(sealmark: Sealmark, *args: str | Path) -> list[str]:
    done = sealmark.run("keys", "ls", "--json", *args)
    assert done.returncode == 0, done.stderr
    return [key["name"] for key in json.loads(done.stdout)]


def test_a_copy_has_everything_and_is_the_users_own(sealmark: Sealmark, store: Path) -> None:
    copy = sealmark.cwd / "copy.db"
    done = sealmark.run("backup", "copy.db")
    assert (done.returncode, done.stderr) == (0, b"")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert names(sealmark, "--store", copy) == names(sealmark)
    assert sealmark.run("audit", "--store", copy).returncode == 0


def test_what_is_in_the_log_of_the_store_is_copied(sealmark: Sealmark, store: Path) -> None:
    """While somebody has the store open, the newest is in its -wal only."""
    with sqlite3.connect(store) as reader:
        assert reader.execute("SELECT count(*) FROM api_key").fetchone()[0] == 20
        assert sealmark.run("keys", "create", "newest").returncode == 0
        assert store.with_name("sealmark.db-wal").stat().st_size > 0
        assert sealmark.run("backup", "copy.db").returncode == 0
    reader.close()
    assert "newest" in names(sealmark, "--store", sealmark.cwd / "copy.db")


def test_the_copy_of_an_old_store_is_old(sealmark: Sealmark, store: Path) -> None:
    """It is made before an upgrade, maybe with the new program."""
    with sqlite3.connect(store) as old:
        old.execute("PRAGMA user_version = 1")
    old.close()
    assert sealmark.run("backup", "copy.db").returncode == 0
    for path in (store, sealmark.cwd / "copy.db"):
        with sqlite3.connect(path) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (1,)
        db.close()


def test_nothing_is_replaced(sealmark: Sealmark, store: Path) -> None:
    kept = sealmark.cwd / "kept.db"
    kept.write_text("kept")
    done = sealmark.run("backup", "kept.db")
    assert done.returncode == USAGE
    assert b"kept.db is there already" in done.stderr
    assert kept.read_text() == "kept"


def test_no_copy_of_what_is_no_whole_store(sealmark: Sealmark, store: Path) -> None:
    junk = sealmark.cwd / "junk"
    junk.write_bytes(b"junk" * 5000)
    damaged = sealmark.cwd / "damaged"
    bytes_ = bytearray(store.read_bytes())
    bytes_[8192:] = bytes(len(bytes_) - 8192)
    damaged.write_bytes(bytes_)
    for path in (junk, damaged):
        done = sealmark.run("backup", "--store", path, "copy.db")
        assert done.returncode == OURS
        assert str(path).encode() in done.stderr or b"damaged" in done.stderr
    for args in (["--store", "gone", "copy.db"], ["gone/copy.db"]):
        done = sealmark.run("backup", *args)
        assert done.returncode == USAGE
        assert b"gone" in done.stderr
    assert not list(sealmark.cwd.glob("copy.db*"))
