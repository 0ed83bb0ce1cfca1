# SPDX-License-Identifier: Apache-2.0
"""Builds of images on engine fake, for tests: how they go, asking for one, looking at one."""

from typing import Any

from serving import Answer, Server

# what a build machine gives: bytes with the mark of the file system at its place
IMAGE = "report " + '"' + "a" * 1024 + "\\xe2\\xe1\\xf5\\xe0" + "b" * 64 + '"'
BUILDS = f'exec "*/.build/driver" stdout "hello\\nworld\\n" stderr "a warning\\n" {IMAGE}\n'
FAILS = 'exec "*/.build/driver" stderr "no such package\\nthis step failed\\n" exit 10\n'
HANGS = 'exec "*/.build/driver" stdout "begun\\n" hang\n'


def script(server: Server, text: str) -> None:
    (server.home / "script").write_text(text)


def build(server: Server, wait: int = 60, **fields: Any) -> Answer:
    return server.ask("POST", "/v1/images", fields, headers={"Prefer": f"wait={wait}"})


def recipe(text: str) -> dict[str, list[str]]:
    return {"commands": [text]}


def get(server: Server, image: str) -> Any:
    return server.ask("GET", f"/v1/images/{image}").json
