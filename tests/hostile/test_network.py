# SPDX-License-Identifier: Apache-2.0
"""Root in the guest, and names that change: with internet only what is allowed is reached, without
it nothing. Servers on this host's own addresses are the victims; they see what gets through."""

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import PROGRAM, Sealmark

REACHABLE = "127.66.0.1"  # of a range that --also-allow opens
REFUSED = "127.67.0.1"  # as any loopback address
RANGE = ("--internet", "--also-allow", "127.66.0.0/16")

# in the guest: ways to a host and port, each says what came back
WAYS = r"""
import socket, struct, sys

def head(s, count):
    got = b""
    while len(got) < count:
        piece = s.recv(count - len(got))
        if not piece:
            break
        got += piece
    return got

def echo(s):
    s.sendall(b"hello")
    return head(s, 5) == b"hello"

def tunnel(host, port):
    s = socket.create_connection(("127.0.0.1", 3128), 60)
    s.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
    answer = head(s, len("HTTP/1.1 200 Connection established\r\n\r\n"))
    return answer.startswith(b"HTTP/1.1 200 ") and echo(s)

def url(host, port):
    s = socket.create_connection(("127.0.0.1", 3128), 60)
    s.sendall(f"GET http://{host}:{port}/ HTTP/1.1\r\n\r\n".encode())
    return head(s, 5) == b"GET /"

def socks(host, port):
    s = socket.create_connection(("127.0.0.1", 1080), 60)
    s.sendall(b"\5\1\0")
    assert head(s, 2) == b"\5\0"
    name = host.encode()
    s.sendall(b"\5\1\0\3" + bytes([len(name)]) + name + struct.pack(">H", port))
    return head(s, 10)[1:2] == b"\0" and echo(s)

def direct(host, port):
    return echo(socket.create_connection((host, port), 60))

def tried(way, host, port):
    try:
        return way(host, port)
    except OSError:
        return False
"""


class Victim:
    """TCP and UDP on one port; it sends back what comes, and counts who came."""

    def __init__(self, address: str, port: int = 0) -> None:
        self.tcp = socket.create_server((address, port))
        self.address, self.port = self.tcp.getsockname()
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((address, self.port))
        self.came = 0
        for work in (self.accept, self.receive):
            threading.Thread(target=work, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.tcp.accept()
            except OSError:
                return
            self.came += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(65536):
                connection.sendall(data)
        except OSError:
            pass
        connection.close()

    def receive(self) -> None:
        while True:
            try:
                self.udp.recv(65536)
            except OSError:
                return
            self.came += 1

    def close(self) -> None:
        # wakes the threads that wait, so that they end
        for one in (self.tcp, self.udp):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()


@pytest.fixture
def friend() -> Iterator[Victim]:
    victim = Victim(REACHABLE)
    yield victim
    victim.close()


@pytest.fixture
def victim() -> Iterator[Victim]:
    victim = Victim(REFUSED)
    yield victim
    victim.close()


def guest(room: Sealmark, code: str, *options: str) -> list[str]:
    done = room.run(
        *("sandbox", "run", "--user", "0", *options, "--", "python3", "-c", WAYS + code)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


# --- only what is allowed ----------------------------------------------------------------------


def test_all_ways_lead_to_what_is_allowed_only(
    room: Sealmark, friend: Victim, victim: Victim
) -> None:
    code = f"""
for way in (tunnel, url, socks):
    print(tried(way, "{REACHABLE}", {friend.port}), tried(way, "{REFUSED}", {victim.port}))
"""
    assert guest(room, code, *RANGE) == ["True False"] * 3
    assert (friend.came, victim.came) == (3, 0)


def test_rules_hold_for_root(room: Sealmark, friend: Victim) -> None:
    code = f"""
print(tried(tunnel, "{REACHABLE}", {friend.port}))
for name in ("example.org", "x.example.net"):
    print(tried(tunnel, name, 443))
    try:
        print(socket.getaddrinfo(name, 443))
    except OSError as error:
        print(error.errno == socket.EAI_NONAME)
"""
    refused = ["False", "True", "False", "True"]
    allow = ("--allow", "127.66.0.2", "--allow", "*.example.com")
    assert guest(room, code, *RANGE, *allow) == ["False", *refused]
    deny = ("--deny", REACHABLE, "--deny", "example.org", "--deny", "*.example.net")
    assert guest(room, code, *RANGE, *deny) == ["False", *refused]
    assert friend.came == 0


ATTACKS = r"""
import ctypes, fcntl, os
host, port = sys.argv[1] if len(sys.argv) > 1 else HOST, PORT
def attempt(what):
    try:
        what()
        return True
    except OSError:
        return False
def udp(address, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.sendto(b"x", (address, port))
def raw(protocol):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol)
    s.sendto(b"\x08\x00\xf7\xff\x00\x00\x00\x00", (host, 0))
def own_header():
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    s.sendto(b"\x45\x00\x00\x1d\x00\x00\x00\x00\x40\x11\x00\x00\x7f\x00\x00\x01"
             + socket.inet_aton(host) + struct.pack(">HHHHc", 1, port, 9, 0, b"x"), (host, 0))
def route():
    # SIOCADDRT: everything by the loopback
    entry = struct.pack("Q16s16s16sHhLLPhPLLH", 0,
        struct.pack("HH12x", 2, 0), struct.pack("HH12x", 2, 0), struct.pack("HH12x", 2, 0),
        1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x890B, entry)
for address in (host, "255.255.255.255", "224.0.0.1", "127.255.255.255"):
    attempt(lambda: udp(address, port))
attempt(route)
for protocol in (1, 6, 17, 255):
    attempt(lambda: raw(protocol))
attempt(own_header)
print(attempt(lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM)))
print(attempt(lambda: socket.socket(17, socket.SOCK_RAW, 0x0300)))
print(attempt(lambda: direct(host, port)))
for cid in (0, 1, 2, 3, 0xFFFFFFFF):
    for number in (1, 22, 53, 80, 443, 1024, 1025, 3128, port):
        def vsock():
            with socket.socket(40, socket.SOCK_STREAM) as s:
                s.settimeout(30)
                s.connect((cid, number))
        if attempt(vsock):
            print("vsock", cid, number)
"""


@pytest.mark.parametrize("options", [(), RANGE], ids=["without", "with internet"])
def test_nothing_but_the_proxies_gets_out(
    room: Sealmark, friend: Victim, victim: Victim, options: tuple[str, ...]
) -> None:
    """UDP, raw, IPv6, packet sockets, vsock, routes: also where a connection would be allowed."""
    for target in (friend, victim):
        code = f"HOST, PORT = {target.address!r}, {target.port}\n" + ATTACKS
        assert guest(room, code, *options) == ["False"] * 3
        assert target.came == 0


def test_without_internet_nothing_listens(room: Sealmark, friend: Victim) -> None:
    code = f"""
import os
for port in (22, 53, 80, 443, 1080, 3128):
    print(tried(lambda host, port: socket.create_connection((host, port)), "127.0.0.1", port))
print([name for name in os.environ if "proxy" in name.lower()])
print(tried(tunnel, "{REACHABLE}", {friend.port}))
try:
    socket.getaddrinfo("example.org", 443)
except OSError as error:
    print("no names")
print(open("/proc/net/route").read().count("\\n"))
"""
    assert guest(room, code) == ["False"] * 6 + ["[]", "False", "no names", "1"]
    assert friend.came == 0


# --- names that point elsewhere ----------------------------------------------------------------


def with_names(room: Sealmark, hosts: Path, code: str, *options: str) -> "subprocess.Popen[bytes]":
    """The program in a mount namespace where `hosts` is /etc/hosts."""
    space = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-r", "--mount"]
    mount = 'mount --bind "$0" /etc/hosts && exec "$@"'
    run = ("sandbox", "run", "--user", "0", *RANGE, *options, "--", "python3", "-uc", WAYS + code)
    return subprocess.Popen(
        [*space, "sh", "-c", mount, str(hosts), str(PROGRAM), *run],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=room.cwd,
        env=room.environment(),
    )


def test_names_that_point_inside(
    room: Sealmark, tmp_path: Path, friend: Victim, victim: Victim
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(
        f"{REACHABLE} good.example\n{REFUSED} bad.example\n10.9.9.9 private.example\n"
        f"169.254.169.254 meta.example\n::1 six.example\n{REFUSED} both.example\n"
        f"{REACHABLE} both.example\n"
    )
    code = f"""
for name in ("good", "bad", "private", "meta", "six", "both"):
    way = [tried(way, name + ".example", {friend.port}) for way in (tunnel, socks)]
    print(name, *way)
print(tried(tunnel, "bad.example", {victim.port}), tried(tunnel, "both.example", {victim.port}))
"""
    run = with_names(room, hosts, code)
    out, err = run.communicate(timeout=90)
    assert out.decode().splitlines() == [
        "good True True",
        "bad False False",
        "private False False",
        "meta False False",
        "six False False",
        "both True True",
        "False False",
    ], err
    assert (friend.came, victim.came) == (4, 0)


def test_names_that_change(room: Sealmark, tmp_path: Path, friend: Victim) -> None:
    """A name is checked where it points when the connection is made, whatever was said before."""
    hosts = tmp_path / "hosts"
    hosts.write_text(f"{REACHABLE} turn.example\n")
    victim = Victim(REFUSED, friend.port)
    code = f"""
print(socket.getaddrinfo("turn.example", {friend.port}, socket.AF_INET)[0][4][0][:7])
print(tried(tunnel, "turn.example", {friend.port}))
input()
print(tried(tunnel, "turn.example", {friend.port}), tried(socks, "turn.example", {friend.port}))
"""
    run = with_names(room, hosts, code)
    assert run.stdout and run.stdin
    assert run.stdout.readline() == b"198.18.\n"
    assert run.stdout.readline() == b"True\n"
    hosts.write_text(f"{REFUSED} turn.example\n")  # the same file, which is mounted
    run.stdin.write(b"\n")
    run.stdin.flush()
    assert run.stdout.readline() == b"False False\n"
    run.communicate(timeout=60)
    assert (friend.came, victim.came) == (1, 0)
    victim.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="ports below 1024 are root's")
def test_programs_that_know_no_proxy(room: Sealmark, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(f"{REACHABLE} good.example\n{REFUSED} bad.example\n")
    friend, victim = Victim(REACHABLE, 443), Victim(REFUSED, 443)
    code = """
for host, port in (
    ("good.example", 443), ("bad.example", 443), ("good.example", 444), ("none.invalid", 443),
    ("127.0.0.1", 443), ("10.9.9.9", 443), ("169.254.169.254", 80), ("198.18.7.7", 443),
):
    print(tried(direct, host, port))
"""
    out, err = with_names(room, hosts, code).communicate(timeout=90)
    assert out.decode().splitlines() == ["True"] + ["False"] * 7, err
    assert (friend.came, victim.came) == (1, 0)
    friend.close()
    victim.close()
