# SPDX-License-Identifier: Apache-2.0
"""sealmark keys revoke: by id, or by a name that is one key's."""

import json

from support import Sealmark

USAGE = 2


def revoked(sealmark: Sealmark) -> list[tuple[str, bool]]:
    keys = json.loads(sealmark.run("keys", "ls", "--json").stdout)
    return [(key["name"], key["revoked"] is not None) for key in keys]


def make(sealmark: Sealmark, name: str) -> str:
    done = sealmark.run("keys", "create", "--json", name)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["id"]


def test_a_key_is_revoked_by_its_name(sealmark: Sealmark) -> None:
    first = make(sealmark, "scripts")
    make(sealmark, "other")
    done = sealmark.run("keys", "revoke", "--json", "scripts")
    assert json.loads(done.stdout)["id"] == first
    assert revoked(sealmark) == [("scripts", True), ("other", False)]
    # one that holds no more does not stand in the way of its successor
    make(sealmark, "scripts")
    assert sealmark.run("keys", "revoke", "scripts").returncode == 0
    assert revoked(sealmark) == [("scripts", True), ("other", False), ("scripts", True)]
    done = sealmark.run("keys", "revoke", "scripts")
    assert done.returncode == USAGE
    assert b'no key "scripts" that holds' in done.stderr


def test_a_name_of_two_keys_revokes_neither(sealmark: Sealmark) -> None:
    first = make(sealmark, "scripts")
    make(sealmark, "scripts")
    make(sealmark, first)  # a program may call its key like another's id
    done = sealmark.run("keys", "revoke", "scripts")
    assert done.returncode == USAGE
    assert b"2 keys are called" in done.stderr
    assert not any(was for _, was in revoked(sealmark))
    assert sealmark.run("keys", "revoke", first).returncode == 0
    assert [was for _, was in revoked(sealmark)] == [True, False, False]
