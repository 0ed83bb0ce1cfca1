# SPDX-License-Identifier: Apache-2.0
"""One connection of the blocking client, read and written by two threads at once."""

import socket
import ssl
import subprocess
import threading
from pathlib import Path

import httpcore
import pytest

from sealmark._sync._wait import duplex

PIECE = b"x" * 64
PIECES = 10_000


@pytest.fixture
def contexts(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(cert)]
    subprocess.run([*words, *names, *files], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    return server, ssl.create_default_context(cafile=cert)


def echo(listener: socket.socket, context: ssl.SSLContext | None) -> None:
    connection, _ = listener.accept()
    with context.wrap_socket(connection, server_side=True) if context else connection as peer:
        left = len(PIECE) * PIECES
        while left and (data := peer.recv(65536)):
            peer.sendall(data)
            left -= len(data)


@pytest.mark.parametrize("tls", [False, True])
def test_read_and_written_at_once(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], tls: bool
) -> None:
    """In one TLS connection two threads spoil each other's records where nothing parts them."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = threading.Thread(target=echo, args=(listener, contexts[0] if tls else None))
    server.start()
    port = listener.getsockname()[1]
    raw = httpcore.SyncBackend().connect_tcp("127.0.0.1", port)
    stream = duplex(raw.start_tls(contexts[1], "127.0.0.1", 60) if tls else raw)
    seen: list[bytes] = []
    failures: list[Exception] = []

    def read() -> None:
        try:
            while sum(map(len, seen)) < len(PIECE) * PIECES and (data := stream.read(65536, 60)):
                seen[:] = [b"".join([*seen, data])]
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(PIECES):
            stream.write(PIECE, 60)
    except (OSError, httpcore.NetworkError) as error:
        failures.append(error)
    reader.join(120)
    raw.close()
    server.join(120)
    listener.close()
    assert not failures
    assert b"".join(seen) == PIECE * PIECES


def test_nothing_comes_in_time() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    raw = httpcore.SyncBackend().connect_tcp(*listener.getsockname())
    stream = duplex(raw)
    with pytest.raises(httpcore.ReadTimeout):
        stream.read(1, 0.01)
    with pytest.raises(httpcore.WriteTimeout):
        while True:  # until nobody takes more
            stream.write(b"x" * 65536, 0.01)
    raw.close()
    listener.close()
