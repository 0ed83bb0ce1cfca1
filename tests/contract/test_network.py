# SPDX-License-Identifier: Apache-2.0
"""The network of sandboxes over the API: rules, changes at once, what is counted."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from serving import Server, make_home

# addresses of this host that nothing but these tests uses; the operator's file lets them be reached
REACHABLE = "127.66.0.1"
ALSO_REACHABLE = "127.66.0.2"
NOT_REACHABLE = "127.67.0.1"

# runs in the sandbox: opens a connection by the proxy, echoes once, then waits for its end
TALK = r"""
import socket, sys
host, port = sys.argv[1], int(sys.argv[2])
s = socket.create_connection(("127.0.0.1", 3128))
s.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
head = b""
while b"\r\n\r\n" not in head:
    piece = s.recv(1)
    if not piece:
        break
    head += piece
status = head.split()[1].decode()
print(status, flush=True)
if status == "200":
    s.sendall(b"hello")
    print(s.recv(5).decode(), flush=True)
    if len(sys.argv) > 3:
        try:
            print("end", s.recv(1), flush=True)
        except OSError as error:
            print("reset", error.errno, flush=True)
"""


class Echo:
    """A TCP server that sends back what comes, and keeps its connections open."""

    def __init__(self, address: str) -> None:
        self.listener = socket.create_server((address, 0))
        self.address, self.port = self.listener.getsockname()
        self.connections = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(65536):
                connection.sendall(data)
        except OSError:
            pass
        connection.close()


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    echo = Echo(REACHABLE)
    yield echo
    echo.listener.close()


@pytest.fixture(scope="module")
def campus(has_machines: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose operator lets sandboxes reach a range of this host."""
    config = tmp_path_factory.mktemp("campus") / "sealmark.yaml"
    config.write_text('egress:\n  alsoAllow: [127.66.0.0/16]\n  deny: ["*.denied.example"]\n')
    server = Server(make_home(), ["--config", str(config)])
    server.start()
    yield server
    server.close()


@pytest.fixture
def client(campus: Server) -> Iterator[Any]:
    from withruntime import Runtime

    with Runtime(campus.key, campus.url) as runtime:
        yield runtime


def talk(box: Any, host: str, port: int, *more: str) -> list[str]:
    done = box.exec(["python3", "-c", TALK, host, str(port), *more], timeout_ms=60000)
    assert done.stderr == "", done.stderr
    return list(done.stdout.split("\n")[:-1])


def test_internet_is_the_default(client: Any, echo: Echo) -> None:
    with client.sandboxes.create(memory_mib=512) as box:
        assert box.info["network"] == {"internet": True, "allow": [], "deny": []}
        assert talk(box, REACHABLE, echo.port) == ["200", "hello"]
        assert "http://127.0.0.1:3128" in box.exec("echo $http_proxy").stdout
        usage = box.network.get()["usage"]
        assert (usage["connections"], usage["refused"]) == (1, 0)
        assert (usage["bytesIn"], usage["bytesOut"]) == (5, 5)


def test_only_public_addresses_and_what_the_operator_adds(client: Any, echo: Echo) -> None:
    private = Echo(NOT_REACHABLE)
    with client.sandboxes.create(memory_mib=512) as box:
        for host in (NOT_REACHABLE, "localhost", "10.0.0.1", "169.254.169.254", "[::1]"):
            assert talk(box, host, private.port)[0] in ("403", "502"), host
        assert box.network.get()["usage"]["refused"] >= 4
    assert private.connections == 0
    private.listener.close()


def test_without_internet_nothing_listens(client: Any, echo: Echo) -> None:
    before = echo.connections
    with client.sandboxes.create(memory_mib=512, network={"internet": False}) as box:
        done = box.exec(["python3", "-c", TALK, REACHABLE, str(echo.port)])
        assert "ConnectionRefusedError" in done.stderr
        assert box.exec("env | grep -ci proxy").stdout.strip() == "0"
    assert echo.connections == before


def test_allow_and_deny(client: Any, echo: Echo) -> None:
    rules = {"internet": True, "allow": ["127.66.0.0/24"], "deny": [f"{REACHABLE}:1"]}
    with client.sandboxes.create(memory_mib=512, network=rules) as box:
        assert box.info["network"] == rules
        assert talk(box, REACHABLE, echo.port) == ["200", "hello"]
        assert talk(box, REACHABLE, 1) == ["403"]
        assert talk(box, "127.66.1.1", echo.port) == ["403"]
        assert talk(box, "example.org", 443) == ["403"]


def test_an_allow_list_says_itself_that_there_is_internet(client: Any, echo: Echo) -> None:
    rules = {"internet": False, "allow": [REACHABLE]}
    with client.sandboxes.create(memory_mib=512, network=rules) as box:
        assert box.info["network"]["internet"] is True
        assert talk(box, REACHABLE, echo.port) == ["200", "hello"]
        assert talk(box, ALSO_REACHABLE, echo.port) == ["403"]


def test_the_operators_denial_holds(client: Any) -> None:
    with client.sandboxes.create(memory_mib=512, network={"allow": ["*"]}) as box:
        assert talk(box, "a.denied.example", 443) == ["403"]


@pytest.mark.parametrize("way", ["deny", "allow", "off", "update"])
def test_a_change_resets_open_connections(
    client: Any, campus: Server, echo: Echo, way: str
) -> None:
    with client.sandboxes.create(memory_mib=512) as box:
        lines: list[str] = []
        connected = threading.Event()

        def take(text: str) -> None:
            lines.append(text)
            if "hello" in "".join(lines):
                connected.set()

        waiting = threading.Thread(
            target=lambda: box.exec(
                ["python3", "-c", TALK, REACHABLE, str(echo.port), "wait"],
                timeout_ms=60000,
                on_stdout=take,
            )
        )
        waiting.start()
        assert connected.wait(60)
        if way == "deny":
            answer = box.network.set(internet=True, deny=[REACHABLE])
            assert answer["deny"] == [REACHABLE]
        elif way == "allow":
            box.network.set(internet=True, allow=["example.org"])
        elif way == "off":
            box.network.off()
        else:
            done = campus.ask(
                "POST",
                f"/v1/sandboxes/{box.id}:update",
                {"network": {"internet": True, "deny": [f"{REACHABLE}:{echo.port}"]}},
            )
            assert done.status == 200, done.body
            assert done.json["network"]["deny"] == [f"{REACHABLE}:{echo.port}"]
        waiting.join(60)
        assert "".join(lines).split("\n")[2].startswith("reset"), lines
        if way == "off":
            refused = box.exec(["python3", "-c", TALK, REACHABLE, str(echo.port)])
            assert "ConnectionRefusedError" in refused.stderr
            box.network.on()
            assert talk(box, REACHABLE, echo.port) == ["200", "hello"]
        else:
            assert talk(box, REACHABLE, echo.port) == ["403"]


def test_internet_can_be_switched_on_later(client: Any, echo: Echo) -> None:
    with client.sandboxes.create(memory_mib=512, network={"internet": False}) as box:
        box.network.set(internet=True, allow=[REACHABLE])
        assert talk(box, REACHABLE, echo.port) == ["200", "hello"]


def test_each_wrong_rule_is_named(campus: Server) -> None:
    rules = {"allow": ["ok.example", "http://x.example/"], "deny": ["1.2.3.4/40", "*", "a b"]}
    done = campus.ask("POST", "/v1/sandboxes", {"network": rules})
    assert (done.status, done.code) == (400, "invalid_request")
    paths = [issue["path"] for issue in done.json["error"]["details"]["issues"]]
    assert paths == ["network.allow[1]", "network.deny[0]", "network.deny[2]"]


def test_connect_is_not_there(client: Any) -> None:
    from withruntime import ServiceUnavailableError

    with client.sandboxes.create(memory_mib=512) as box:
        with pytest.raises(ServiceUnavailableError):
            box.network.set(internet=True, connect=["example.org:22"])
