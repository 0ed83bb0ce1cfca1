# SPDX-License-Identifier: Apache-2.0
"""The end of tests/distro in the machine: runs what the host sends over a virtio port, as root.

A line of JSON comes for each command ({"argv", "stdin", "timeout"}), a line goes back ({"status",
"out", "err"}). The status is that of the command, 128 and the signal, or 124 on timeout. Commands
may be killed, and the machine with them: the host's side then waits for the next greeting.
"""

import base64
import json
import os
import select
import subprocess
import sys

PORT = "/dev/virtio-ports/sealmark.shell"
MOST = 1 << 20  # of output that goes back


def text_of(data: bytes) -> str:
    return base64.b64encode(data[-MOST:]).decode()


def run(request: dict) -> dict:
    try:
        done = subprocess.run(
            request["argv"],
            input=base64.b64decode(request["stdin"]),
            capture_output=True,
            timeout=request["timeout"],
            cwd="/root",
        )
    except subprocess.TimeoutExpired as e:
        return {"status": 124, "out": text_of(e.stdout or b""), "err": text_of(e.stderr or b"")}
    except OSError as e:
        return {"status": 127, "out": "", "err": text_of(str(e).encode())}
    status = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return {"status": status, "out": text_of(done.stdout), "err": text_of(done.stderr)}


def send(port: int, answer: dict) -> None:
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[os.write(port, data) :]


def main() -> None:
    port = os.open(PORT, os.O_RDWR)
    waiter = select.poll()
    waiter.register(port, select.POLLIN)
    line = b""
    send(port, {"hello": os.getpid()})
    while True:
        data = os.read(port, 65536)
        if not data:  # nobody is at the other end, which poll says as POLLHUP, at once
            waiter.poll(200)
            select.select([], [], [], 0.2)
            continue
        line += data
        while b"\n" in line:
            one, line = line.split(b"\n", 1)
            send(port, run(json.loads(one)))


if __name__ == "__main__":
    sys.exit(main())
