# SPDX-License-Identifier: Apache-2.0 - runs the examiner on this host, with uids of its own.
"""The launcher as it runs in a guest, but without a machine and without cgroups."""

import base64
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sealmark_examiner.report import hmac_sha256

EXAMINER = Path(__file__).resolve().parents[2] / "examiner"
PYTHON = "/usr/bin/python3"
# Of this run alone: without cgroups the launcher kills by uid.
CANDIDATE_UID = 1_000_000 + os.getpid() % 100_000 * 2
EXAMINER_UID = CANDIDATE_UID + 1


@dataclass
class Run:
    status: int
    events: list[dict[str, Any]]
    stdout: bytes
    stderr: bytes
    nonce: str
    verdicts: dict[str, str] = field(default_factory=dict)
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    cheats: list[str] = field(default_factory=list)
    proven: bool = False

    def __post_init__(self) -> None:
        sealed = b""
        for event in self.events:
            if "test" in event:
                self.tests[event["test"]] = event
                self.verdicts[event["test"]] = event["verdict"]
                sealed += f"{event['test']}\0{event['verdict']}\n".encode()
            if "done" in event and "proof" in event:
                self.cheats = event["cheats"]
                self.proven = event["proof"] == hmac_sha256(self.nonce.encode(), sealed)

    def short(self) -> dict[str, str]:
        """Verdicts by the last part of the id, without the canaries."""
        canaries = {name: v for name, v in self.verdicts.items() if name.startswith("__canary")}
        assert canaries and "passed" not in canaries.values(), canaries
        return {
            name.rpartition(".")[2].rpartition("::")[2]: verdict
            for name, verdict in self.verdicts.items()
            if name not in canaries
        }

    def detail(self, name: str) -> str:
        found = [test for key, test in self.tests.items() if key.endswith(name)]
        return found[0].get("detail", "")

    def output(self, name: str, channel: str = "out") -> bytes:
        found = [test for key, test in self.tests.items() if key.endswith(name)]
        return base64.b64decode(found[0].get(channel, {}).get("head", ""))


def write_files(folder: Path, files: dict[str, str | bytes], uid: int, mode: int) -> None:
    folder.mkdir()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else textwrap.dedent(content).encode()
        path.write_bytes(data)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid)
        if path.is_dir():
            path.chmod(mode)


def launch(config: dict[str, Any], plain: dict[str, Any], timeout: float = 60) -> Run:
    head = "".join(f"{key}={value}\n" for key, value in plain.items()).encode()
    body = json.dumps(config).encode()
    read_end, write_end = os.pipe()
    try:
        process = subprocess.Popen(
            [PYTHON, "-I", "-B", "-X", "utf8", str(EXAMINER / "launch.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: os.dup2(write_end, 3),
            pass_fds=(3,),
            env={"PATH": "/usr/bin:/bin"},
        )
        os.close(write_end)
        write_end = -1
        import threading

        report = bytearray()

        def read_report() -> None:
            while data := os.read(read_end, 65536):
                report.extend(data)

        reader = threading.Thread(target=read_report)
        reader.start()
        try:
            out, err = process.communicate(b"%08d" % len(head) + head + body, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        reader.join(60)
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)
    events = [json.loads(line) for line in bytes(report).splitlines()]
    return Run(process.returncode, events, out, err, config.get("nonce", ""))


def examine(
    student: dict[str, str | bytes],
    tests: dict[str, str | bytes] | str,
    *,
    mode: str = "run",
    framework: str = "",
    modules: list[str] | None = None,
    cpu_ms: int = 2000,
    wall_ms: int = 20_000,
    memory: int = 512 << 20,
    output: int = 100_000,
    file_bytes: int = 1 << 20,
    processes: int = 60,
    timeout: float = 60,
) -> Run:
    """Run `tests` against the files of `student`."""
    if isinstance(tests, str):
        tests = {"test_hw.py": tests}
    root = Path(tempfile.mkdtemp(prefix="examiner-test-"))
    try:
        root.chmod(0o755)
        write_files(root / "workspace", student, CANDIDATE_UID, 0o755)
        write_files(root / "tests", tests, EXAMINER_UID, 0o700)
        (root / "tmp").mkdir()
        (root / "tmp").chmod(0o1777)
        plain = {
            "candidate_uid": CANDIDATE_UID,
            "candidate_gid": CANDIDATE_UID,
            "examiner_uid": EXAMINER_UID,
            "examiner_gid": EXAMINER_UID,
            "workspace": root / "workspace",
            "tests": root / "tests",
            "memory_bytes": memory,
            "processes": processes,
            "file_bytes": file_bytes,
        }
        config = {
            "mode": mode,
            "nonce": secrets.token_hex(32),
            "tests": str(root / "tests"),
            "workspace": str(root / "workspace"),
            "framework": framework or "unittest",
            "modules": modules or ["hw"],
            "tmp": str(root / "tmp"),
            "cpu_ms": cpu_ms,
            "wall_ms": wall_ms,
            "output_bytes": output,
        }
        if mode == "collect":
            config["framework"], config["modules"] = framework, modules or []
        return launch(config, plain, timeout)
    finally:
        shutil.rmtree(root)
