# SPDX-License-Identifier: Apache-2.0
"""People and programs as tests play them: a browser, and a program that asks for a key."""

import base64
import http.client
import json
import re
import subprocess
import time
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serving import Answer, Server

PASSWORD = "correct horse battery"
OTHER = "another horse battery"


@dataclass
class Browser:
    """What a browser does with this server: cookies, forms, and headers that say where from."""

    server: Server
    cookies: dict[str, str] = field(default_factory=dict)
    csrf: str = ""
    flags: dict[str, str] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        sent = {"Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())}
        sent |= {"Accept": "text/html", **(headers or {})}
        try:
            connection.request(method, path, body, {k: v for k, v in sent.items() if v})
            response = connection.getresponse()
            for name, value in response.getheaders():
                if name.lower() == "set-cookie":
                    cookie, _, rest = value.partition(";")
                    key, _, text = cookie.partition("=")
                    self.flags[key] = rest
                    self.cookies.pop(key, None)
                    if text:
                        self.cookies[key] = text
            names = {k.lower(): v for k, v in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers=headers)

    def form(
        self, path: str, fields: dict[str, str], headers: dict[str, str] | None = None
    ) -> Answer:
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.origin}
        body = urllib.parse.urlencode(fields).encode()
        return self.ask("POST", path, body, {**kind, **(headers or {})})

    def fetch(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """As the console does it."""
        kind = {"Content-Type": "application/json", "Origin": self.origin}
        data = None if body is None else json.dumps(body).encode()
        return self.ask(
            method, path, data, {**kind, "X-Sealmark-CSRF": self.csrf, **(headers or {})}
        )

    def token(self, page: Answer) -> str:
        found = re.search(rb'name="csrf" value="([0-9a-f]{64})"', page.body)
        assert found, page.body
        return found[1].decode()

    def sign_in(self, password: str = PASSWORD) -> Answer:
        answer = self.fetch("POST", "/api/session", {"password": password})
        if answer.status == 200:
            self.csrf = answer.json["csrf"]
        return answer


def link_of(server: Server) -> str:
    """The token of the link that the start has printed."""
    assert server.process and server.process.stdout
    for line in server.process.stdout:
        if found := re.search(r"/setup\?token=([\w-]{43})$", line.strip()):
            return found[1]
    raise AssertionError("no link was printed")


@dataclass
class Program:
    """One that asks for a key, with an RSA key of its own."""

    server: Server
    folder: Path
    codes: Any = None
    body: dict[str, Any] = field(default_factory=dict)

    def start(self, **fields: Any) -> Answer:
        private = self.folder / "private.pem"
        subprocess.run(
            ["openssl", "genrsa", "-out", private, "2048"], check=True, capture_output=True
        )
        public = subprocess.run(
            ["openssl", "rsa", "-in", private, "-pubout"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        self.body = {"agentName": "agent", "machine": "laptop", "publicKey": public, **fields}
        answer = self.server.ask("POST", "/api/connect/start", self.body, key="")
        if answer.status == 200:
            self.codes = answer.json
        return answer

    def call(self, verb: str) -> Answer:
        body = {"deviceCode": self.codes["deviceCode"]}
        return self.server.ask("POST", f"/api/connect/{verb}", body, key="")

    def poll(self) -> Any:
        """As a program does: when it was too soon, after the time that the server names."""
        while (answer := self.call("token")).status == 429:
            time.sleep(answer.json["error"]["retryAfterMs"] / 1000)
        assert answer.status == 200, answer.body
        return answer.json

    def decrypt(self, encrypted: str) -> str:
        options = ("rsa_padding_mode:oaep", "rsa_oaep_md:sha256", "rsa_mgf1_md:sha256")
        return subprocess.run(
            ["openssl", "pkeyutl", "-decrypt", "-inkey", self.folder / "private.pem"]
            + [word for option in options for word in ("-pkeyopt", option)],
            input=base64.b64decode(encrypted),
            check=True,
            capture_output=True,
        ).stdout.decode()
