# SPDX-License-Identifier: Apache-2.0 - what the examiner tells the host, one JSON line an event.
"""
The proof at the end is an HMAC over all ids and verdicts in the order in which they were reported,
keyed with the nonce that the host gave. A run that stopped half-way, or that lost a line, has none.
"""

from __future__ import annotations

import json
import os
from binascii import b2a_base64

try:
    from _sha2 import sha256  # the interpreter's own: hashlib loads OpenSSL
except ImportError:  # before 3.12
    from _sha256 import sha256

from .scope import Kept, Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DETAIL_MOST = 4000
BLOCK = 64


def hmac_sha256(key: bytes, data: bytes) -> str:
    if len(key) > BLOCK:
        key = sha256(key).digest()
    key = key.ljust(BLOCK, b"\0")
    inner = sha256(bytes(each ^ 0x36 for each in key) + data).digest()
    return sha256(bytes(each ^ 0x5C for each in key) + inner).hexdigest()


def base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


def whole_cpu_us() -> int:
    """CPU time of everything the launcher started, by the guest's clock; 0 without a cgroup."""
    try:
        with open("/proc/self/cgroup") as file:
            own = next(line for line in file if line.startswith("0::"))[3:].strip()
        with open(f"/sys/fs/cgroup{os.path.dirname(own)}/cpu.stat") as file:
            return int(file.readline().split()[1])
    except (OSError, StopIteration, ValueError, IndexError):
        return 0


class Report:
    def __init__(self, fd: int, nonce: str) -> None:
        self.fd = fd
        self.nonce = nonce.encode()
        self.sealed = bytearray()
        self.count = 0
        self.verdicts: dict[str, str] = {}

    def line(self, event: dict[str, Any]) -> None:
        data = memoryview(json.dumps(event).encode() + b"\n")
        while data:
            data = data[os.write(self.fd, data) :]

    def start(self, test: str) -> None:
        self.line({"start": test})

    def test(self, test: str, verdict: str, detail: str, scope: Scope) -> None:
        """One test's result; the first one counts."""
        if test in self.verdicts:
            return
        self.verdicts[test] = verdict
        self.sealed += f"{test}\0{verdict}\n".encode("utf-8", "surrogatepass")
        self.count += 1
        event: dict[str, Any] = {"test": test, "verdict": verdict}
        if detail:
            if len(detail) > DETAIL_MOST:
                detail = detail[: DETAIL_MOST // 2] + "\n[...]\n" + detail[-DETAIL_MOST // 2 :]
            event["detail"] = detail.encode("utf-8", "replace").decode()
        event["cpu_us"] = scope.cpu_done
        event["wall_ms"] = int(scope.wall_used * 1000)
        event["memory_peak"] = scope.peak
        for name, kept in (("out", scope.out), ("err", scope.err)):
            if kept.total:
                event[name] = self.kept(kept)
        self.line(event)

    @staticmethod
    def kept(kept: Kept) -> dict[str, Any]:
        value: dict[str, Any] = {"total": kept.total, "head": base64(kept.head)}
        if kept.tail:
            value["tail"] = base64(kept.tail)
        if kept.cut:
            value["cut"] = True
        return value

    def done(self, cheats: set[str]) -> None:
        proof = hmac_sha256(self.nonce, bytes(self.sealed))
        event = {
            "done": self.count,
            "proof": proof,
            "cheats": sorted(cheats),
            "cpu_us": whole_cpu_us(),
        }
        self.line(event)
