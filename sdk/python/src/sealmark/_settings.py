# SPDX-License-Identifier: Apache-2.0
"""Where the server is and who asks: arguments first, then the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ._errors import AuthenticationError, InvalidRequestError

DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True)
class Settings:
    """Of one client. The key is not part of its repr."""

    api_key: str = field(repr=False)
    base_url: str
    auth_url: str
    socket_path: str | None
    timeout: float
    max_retries: int
    wait_for_capacity: float


def _environment(env: Mapping[str, str], name: str) -> str | None:
    return env.get(f"SEALMARK_{name}") or env.get(f"RUNTIME_{name}") or None


def _address(url: str, name: str) -> tuple[str, str | None]:
    """URL and path of a unix socket; the URL of a socket is one that names no host."""
    if url.startswith("unix:"):
        path = url.removeprefix("unix:").removeprefix("//")
        if path.startswith("/"):
            return "http://localhost", path
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise InvalidRequestError(
            f"{name} is no address of a server.",
            code="invalid_url",
            hint="Give http://HOST:PORT, https://HOST or unix:/PATH.",
        )
    return url.rstrip("/"), None


def resolve(
    api_key: str | None,
    base_url: str | None,
    auth_url: str | None,
    timeout: float,
    max_retries: int,
    wait_for_capacity: float,
    env: Mapping[str, str] | None = None,
) -> Settings:
    """Fills in what was not given from SEALMARK_* or RUNTIME_*, and checks it."""
    env = os.environ if env is None else env
    base, socket_path = _address(
        base_url or _environment(env, "API_URL") or DEFAULT_URL, "base_url (SEALMARK_API_URL)"
    )
    auth, _ = _address(
        auth_url or _environment(env, "AUTH_URL") or base, "auth_url (SEALMARK_AUTH_URL)"
    )
    key = api_key or _environment(env, "API_KEY") or ""
    if not re.fullmatch(r"[\x21-\x7e]{1,512}", key):
        # what it is stays unsaid: half a key is half a secret
        raise AuthenticationError(
            "There is no key." if not key else "The key holds characters that no key has.",
            code="no_key" if not key else "invalid_key",
            hint=f"Set SEALMARK_API_KEY or give api_key; `sealmark keys create` on the server or "
            f"{auth} makes one.",
        )
    if not timeout > 0 or max_retries < 0 or not wait_for_capacity >= 0:
        raise InvalidRequestError(
            "timeout is more than 0 seconds; max_retries and wait_for_capacity are not negative.",
            code="invalid_request",
        )
    return Settings(key, base, auth, socket_path, timeout, max_retries, wait_for_capacity)
