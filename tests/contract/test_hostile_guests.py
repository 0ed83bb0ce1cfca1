# SPDX-License-Identifier: Apache-2.0
"""Root in a guest that speaks for the agent, and clients that fill what is the host's."""

import hashlib
import http.client
import socket
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress

from serving import Answer, Server
from support import wait_until

# Root takes the agent's channel and stops the agent; NAME, FRAME and the channel are then its own.
TAKE_OVER = """
import ctypes, os, socket, struct, time
libc = ctypes.CDLL(None, use_errno=True)
PIDFD_OPEN, PIDFD_GETFD, SEIZE, INTERRUPT = 434, 438, 0x4206, 0x4207
agent = libc.syscall(PIDFD_OPEN, 1, 0)
def take():
    for fd in sorted(map(int, os.listdir("/proc/1/fd"))):
        try:  # the agent opens and closes what it works with
            if os.readlink(f"/proc/1/fd/{fd}").startswith("socket:"):
                found = socket.socket(fileno=libc.syscall(PIDFD_GETFD, agent, fd, 0))
                if found.family == socket.AF_VSOCK:
                    return found
        except (OSError, ValueError):
            pass
channel = take()
# not in the middle of an answer, which nobody would end
while open("/proc/1/stat").read().rpartition(")")[2].split()[0] != "S": time.sleep(0.001)
assert libc.ptrace(SEIZE, 1, None, None) == 0
assert libc.ptrace(INTERRUPT, 1, None, None) == 0
os.waitpid(1, 0x40000000)
def text(b): return struct.pack("<I", len(b)) + b + b"\\0"
def frame(kind, stream, body=b""): return struct.pack("<IHHI", len(body), kind, 0, stream) + body
"""

# NET_RESOLVE of what is no name is answered at once; nobody reads the answers
ASK_WITHOUT_END = """
many = frame(0x43, 1, text(b"!")) * 4096
while True:
    channel.sendall(many)
"""

# FILE_LIST is answered with entries that never end
LIST_WITHOUT_END = """
while True:
    head = channel.recv(12, socket.MSG_WAITALL)
    size, kind, _, stream = struct.unpack("<IHHI", head)
    channel.recv(size, socket.MSG_WAITALL)
    if kind == 0x22:
        break
while True:
    numbers = struct.pack("<IIIIQq", 1, 0o644, 0, 0, 0, 0)
    channel.sendall(frame(0x29, stream, text(b"n" * 4000) + numbers + text(b"t" * 4000)))
"""


def become_the_agent(server: Server, sandbox: str, program: str) -> None:
    """The program runs as root in place of the agent, which answers nothing any more."""
    content = f"/v1/sandboxes/{sandbox}/files/content?path=/tmp/program.py"
    assert server.ask("PUT", content, (TAKE_OVER + program).encode()).status == 200
    command = {"command": "exec sudo python3 /tmp/program.py"}
    assert server.ask("POST", f"/v1/sandboxes/{sandbox}/processes", command).status == 201


def test_a_guest_that_reads_no_answers_is_ended(server: Server, sandbox: str) -> None:
    other = server.create(network={"internet": True})
    become_the_agent(server, other, ASK_WITHOUT_END)
    record = server.stopped(other)
    assert record["stopReason"] == "host_lost"
    assert "takes no answer" in record["stopDetail"]
    assert server.run(sandbox, "echo well")["stdout"] == "well\n"


def test_a_list_without_end_is_given_up(server: Server, sandbox: str) -> None:
    other = server.create()
    become_the_agent(server, other, LIST_WITHOUT_END)
    path = f"/v1/sandboxes/{other}/files/list?path=/tmp"

    def not_the_agent() -> Answer | None:
        """Its answer; at first the agent itself still answers."""
        answer = server.ask("GET", path)
        return answer if answer.status != 200 else None

    answer = wait_until(not_the_agent, "the guest to take over")
    assert answer and answer.status == 400, answer.body
    assert "too many long names" in answer.json["error"]["message"]
    assert server.run(sandbox, "echo well")["stdout"] == "well\n"
    assert server.ask("DELETE", f"/v1/sandboxes/{other}").status == 200


def test_uploads_take_no_more_than_the_disk(server: Server) -> None:
    sandbox = server.create(memoryMiB=256, diskMiB=16)
    uploads = f"/v1/sandboxes/{sandbox}/uploads"
    size, piece, half = 16 << 20, bytes(1 << 20), 8 << 20
    body = {"path": "/tmp/x", "size": size, "sha256": hashlib.sha256(bytes(size)).hexdigest()}

    def begin() -> str:
        answer = server.ask("POST", uploads, body)
        assert answer.status == 201, answer.body
        return str(answer.json["uploadId"])

    first, second = begin(), begin()
    last = half - len(piece)  # what is left out before it counts too
    assert server.ask("PUT", f"{uploads}/{first}?offset={last}", piece).status == 200
    assert server.ask("PUT", f"{uploads}/{second}?offset={last}", piece).status == 200
    assert server.ask("PUT", f"{uploads}/{second}?offset={last}", piece).status == 200
    for upload in (first, second):
        refused = server.ask("PUT", f"{uploads}/{upload}?offset={half}", b"x")
        assert refused.code == "quota_exceeded", refused.body
    assert server.ask("POST", f"{uploads}/{first}:abort", {}).status == 200
    assert server.ask("PUT", f"{uploads}/{second}?offset={half}", piece).status == 200
    while (answer := server.ask("POST", uploads, body)).status == 201:
        assert len(list((server.home / "uploads").iterdir())) < 1000
    assert (answer.status, answer.code) == (409, "quota_exceeded")
    # what nobody can commit any more is not kept
    assert server.ask("POST", f"/v1/sandboxes/{sandbox}:stop", {}).status == 200
    assert list((server.home / "uploads").iterdir()) == []
    assert server.ask("POST", uploads, body).code == "sandbox_stopped"
    server.ask("DELETE", f"/v1/sandboxes/{sandbox}")


def test_strangers_send_little(server: Server) -> None:
    body = b'{"password": "%s"}' % (b"x" * 100_000)
    assert server.ask("POST", "/api/session", body, key="").status == 413


def test_what_killed_ones_left_goes_with_the_next_server(
    own_server: Callable[..., Server],
) -> None:
    server = own_server()
    server.kill()
    left = server.home / "sandboxes" / str(uuid.uuid4())
    left.mkdir(parents=True)
    (left / "control.sock").touch()
    server.start()
    wait_until(lambda: not left.exists(), "somebody to clear up")


def test_one_address_leaves_connections_to_others(server: Server) -> None:
    with ExitStack() as held:
        for _ in range(1100):  # each has begun a request, and does not end it
            one = held.enter_context(socket.create_connection(("127.0.0.1", server.port), 60))
            with suppress(OSError):  # it was refused
                one.sendall(b"GET /v1/health HTTP/1.1\r\n")
        other = http.client.HTTPConnection(
            "127.0.0.1", server.port, timeout=60, source_address=("127.0.0.2", 0)
        )
        other.request("GET", "/v1/health")
        assert other.getresponse().status == 200
        other.close()
