# SPDX-License-Identifier: Apache-2.0
"""The command line against a running server: sandboxes, commands, files, statuses, Ctrl-C."""

import base64
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving import Server, make_home
from support import PROGRAM

USAGE, OURS = 2, 3
Done = subprocess.CompletedProcess[bytes]


class Cli:
    """Runs sealmark with the address and key of a server, and a configuration of its own."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **server.environment(),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "SEALMARK_API_URL": server.url,
            "SEALMARK_API_KEY": server.key,
        }

    def __call__(self, *args: str | Path, stdin: bytes | None = None, **env: str) -> Done:
        return subprocess.run(
            [PROGRAM, *args],
            env={**self.env, **env},
            cwd=self.folder,
            capture_output=True,
            timeout=90,
            **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}),
        )

    def good(self, *args: str | Path, stdin: bytes | None = None, **env: str) -> str:
        done = self(*args, stdin=stdin, **env)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def start(self, *args: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [PROGRAM, *args],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


@pytest.fixture
def cli(server: Server, tmp_path: Path) -> Cli:
    return Cli(server, tmp_path)


@pytest.fixture(scope="session")
def box_of_all(server: Server) -> Iterator[str]:
    """A sandbox for tests that leave nothing in it that others could see."""
    made = server.create(memoryMiB=512)
    yield made
    server.ask("DELETE", f"/v1/sandboxes/{made}")


# --- sandboxes ------------------------------------------------------------------------------------


def test_a_sandbox_from_begin_to_end(cli: Cli) -> None:
    made = cli.good("sandbox", "create", "--name", "life", "--label", "cli=a b", "-m", "256M")
    box = made.strip()
    record = json.loads(cli.good("sandbox", "get", "life", "--json"))
    assert (record["id"], record["state"], record["memoryMiB"]) == (box, "running", 256)
    assert record["labels"] == {"cli": "a b"}
    assert box in cli.good("sandbox", "ls", "--label", "cli=a b")
    assert box not in cli.good("sandbox", "ls", "--label", "cli=other")
    assert cli.good("sandbox", "ls", "-q", "--label", "cli=a b").split() == [box]
    before = record["expiresAt"]
    cli.good("sandbox", "extend", "life", "--by", "10m")
    assert json.loads(cli.good("sandbox", "get", box, "--json"))["expiresAt"] > before
    again = cli.good("sandbox", "create", "--name", "life", "--reuse")
    assert again.strip() == box
    cli.good("sandbox", "stop", "life")
    record = json.loads(cli.good("sandbox", "get", box, "--json", "--wait-for", "stopped"))
    assert record["stopReason"] == "requested"
    listed = json.loads(cli.good("sandbox", "ls", "--all", "--json", "--label", "cli=a b"))
    assert [row["id"] for row in listed] == [box]
    again = cli("sandbox", "stop", box)
    assert again.returncode == 0 and b"was stopped already" in again.stderr
    assert b"(requested)" in again.stderr
    done = cli("sandbox", "rm", box)
    assert (done.returncode, done.stderr) == (0, b"")
    again = cli("sandbox", "rm", box)
    assert again.returncode == 0 and box.encode() + b" was removed already" in again.stderr
    assert json.loads(cli.good("sandbox", "rm", box, "--json"))["already"] is True
    assert cli("sandbox", "get", box).returncode == USAGE
    assert cli("sandbox", "rm", "--force", box).returncode == 0


def test_pause_and_wake(cli: Cli) -> None:
    box = cli.good("sandbox", "create", "-m", "256M").strip()
    cli.good("sandbox", "pause", box)
    assert json.loads(cli.good("sandbox", "get", box, "--json"))["state"] == "paused"
    cli.good("sandbox", "wake", box, "--wait", "60s")
    assert cli.good("sandbox", "exec", box, "echo", "awake") == "awake\n"
    done = cli("sandbox", "stop", box, "no-such-box", "--json")
    assert done.returncode == USAGE and b"no-such-box" in done.stderr
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [box]
    cli.good("sandbox", "rm", box)


def test_create_says_what_is_wrong(cli: Cli) -> None:
    for args, says in (
        (["--label", "x"], '--label: "x": must be NAME=VALUE'),
        (["--memory", "1M"], "must be from 128M"),
        (["--reuse"], "needs a --name"),
        (["--internet", "--no-internet"], "exclude each other"),
        (["--lable", "a=b"], "did you mean --label?"),
        (["--image", "nonsuch"], "image_not_found"),
        (["--on-lease-end", "burn"], "onLeaseEnd"),
    ):
        done = cli("sandbox", "create", *args)
        assert done.returncode == USAGE, args
        assert says in done.stderr.decode()
        assert done.stdout == b""


# --- exec -----------------------------------------------------------------------------------------


def test_exec_passes_bytes_and_status(cli: Cli, box_of_all: str) -> None:
    raw = bytes(range(256)) * 400
    done = cli(
        "sandbox", "exec", box_of_all, "--", "sh", "-c", "cat; echo e >&2; exit 7", stdin=raw
    )
    assert (done.returncode, done.stderr) == (7, b"e\n")
    assert done.stdout == raw
    done = cli("sandbox", "exec", box_of_all, "sh", "-c", "kill -TERM $$")
    assert done.returncode == 128 + signal.SIGTERM
    assert cli("sandbox", "exec", box_of_all, "/etc/passwd").returncode == 126
    assert cli("sandbox", "exec", box_of_all, "nonsuch").returncode == 127


def test_exec_options(cli: Cli, box_of_all: str) -> None:
    out = cli.good(
        *("sandbox", "exec", "-e", "A=b c", "--cwd", "/tmp", "--user", "root", box_of_all, "--"),
        *("sh", "-c", 'echo "$A" "$PWD" $(id -u)'),
    )
    assert out == "b c /tmp 0\n"
    # options of the command are its own, also -h
    assert cli.good("sandbox", "exec", box_of_all, "echo", "-h", "--json") == "-h --json\n"
    done = cli("sandbox", "exec", box_of_all, "--timeout", "300ms", "--", "sleep", "60")
    assert done.returncode == 124
    assert b"time limit of 300ms reached" in done.stderr


def test_exec_json_is_one_document(cli: Cli, box_of_all: str) -> None:
    done = cli(
        "sandbox", "exec", "--json", box_of_all, "sh", "-c", "echo ö; printf '\\377' >&2; exit 3"
    )
    document = json.loads(done.stdout)
    assert done.returncode == 3
    assert document["stdout"] == "ö\n"
    assert document["stderrBase64"] == "/w=="
    assert (document["exitCode"], document["timedOut"]) == (3, False)


def test_input_that_is_too_large_runs_nothing(cli: Cli, box_of_all: str) -> None:
    done = cli("sandbox", "exec", box_of_all, "sh", "-c", "echo ran", stdin=bytes((2 << 20) + 1))
    assert (done.returncode, done.stdout) == (USAGE, b"")
    assert b"more than 2 MiB" in done.stderr


def wait_gone(cli: Cli, box: str, there: str) -> None:
    """Until a command in the sandbox no longer succeeds; a time limit is a failure."""
    loop = f"while {there}; do sleep 0.05; done"
    cli.good("sandbox", "exec", "--timeout", "60s", box, "sh", "-c", loop)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_kills_the_command_there(cli: Cli, box_of_all: str, how: signal.Signals) -> None:
    command = cli.start("sandbox", "exec", box_of_all, "sh", "-c", "echo $$; exec sleep 300")
    assert command.stdout
    pid = int(command.stdout.readline())
    command.send_signal(how)
    assert command.wait(60) == 128 + how
    wait_gone(cli, box_of_all, f"kill -0 {pid} 2>/dev/null")


def test_a_reader_that_goes_away(cli: Cli, box_of_all: str) -> None:
    command = cli.start("sandbox", "exec", box_of_all, "yes")
    assert command.stdout
    assert command.stdout.read(2) == b"y\n"
    command.stdout.close()
    assert command.wait(60) == 141
    wait_gone(cli, box_of_all, "pidof yes >/dev/null")


# --- files ----------------------------------------------------------------------------------------


def test_a_folder_there_and_back(cli: Cli, box_of_all: str) -> None:
    there = cli.folder / "there"
    (there / "sub" / "empty").mkdir(parents=True)
    (there / "run.sh").write_bytes(b"#!/bin/sh\n")
    (there / "run.sh").chmod(0o755)
    (there / "sub" / "big ö").write_bytes(os.urandom(3 << 20))  # through an upload in pieces
    (there / "sub" / "link").symlink_to("../run.sh")
    cli.good("sandbox", "cp", "there", f"{box_of_all}:copy")
    cli.good("sandbox", "cp", f"{box_of_all}:copy", "back")
    back = cli.folder / "back"
    assert sorted(p.relative_to(back) for p in back.rglob("*")) == sorted(
        p.relative_to(there) for p in there.rglob("*")
    )
    assert (back / "sub" / "big ö").read_bytes() == (there / "sub" / "big ö").read_bytes()
    assert (back / "run.sh").stat().st_mode & 0o777 == 0o755
    assert os.readlink(back / "sub" / "link") == "../run.sh"
    names = {
        row["name"]
        for row in json.loads(cli.good("sandbox", "ls", f"{box_of_all}:copy", "--json"))["data"]
    }
    assert names == {"run.sh", "sub"}
    # once more onto itself: files are replaced, nothing is added
    cli.good("sandbox", "cp", f"{box_of_all}:copy", "back")
    assert not list(back.rglob(".sealmark-*"))


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1])
def test_a_file_there_and_back(cli: Cli, box_of_all: str, size: int) -> None:
    data = os.urandom(size)
    (cli.folder / "file").write_bytes(data)
    (cli.folder / "file").chmod(0o640)
    cli.good("sandbox", "cp", "file", f"{box_of_all}:/workspace/new/file")
    told = json.loads(cli.good("sandbox", "cp", "--json", f"{box_of_all}:new/file", "back"))
    assert told["bytes"] == (cli.folder / "file").stat().st_size and told["leftOut"] == 0
    assert (cli.folder / "back").read_bytes() == data
    assert (cli.folder / "back").stat().st_mode & 0o777 == 0o640
    done = cli("sandbox", "cat", f"{box_of_all}:new/file")
    assert (done.returncode, done.stdout) == (0, data)
    # into a folder, on both sides
    cli.good("sandbox", "cp", "file", f"{box_of_all}:/tmp")
    (cli.folder / "folder").mkdir()
    cli.good("sandbox", "cp", f"{box_of_all}:/tmp/file", "folder")
    assert (cli.folder / "folder" / "file").read_bytes() == data


def test_files_as_json_lines(cli: Cli, box_of_all: str) -> None:
    files = {"none": b"", "b": b"x\n", "a": "ä \x00".encode(), "raw": b"\xff"}
    for name, data in files.items():
        (cli.folder / name).write_bytes(data)
        cli.good("sandbox", "cp", name, f"{box_of_all}:lines/{name}")
    asked = [f"{box_of_all}:lines/{name}" for name in files]
    lines = [json.loads(line) for line in cli.good("sandbox", "cat", "--json", *asked).splitlines()]
    assert [line["file"] for line in lines] == asked
    assert [line.get("text") for line in lines] == ["", "x\n", "ä \x00", None]
    assert lines[3]["base64"] == base64.b64encode(files["raw"]).decode()


def test_a_full_disk_is_said(cli: Cli, box_of_all: str) -> None:
    """What cannot be written out ends the command with a word on it."""
    (cli.folder / "text").write_text("text\n")
    cli.good("sandbox", "cp", "text", f"{box_of_all}:full")
    for args in (
        ["cat", f"{box_of_all}:full"],
        ["cat", "--json", f"{box_of_all}:full"],
        ["exec", box_of_all, "echo", "x"],
        ["exec", "--json", box_of_all, "echo", "x"],
        ["ls"],
        ["ls", "--json"],
        ["get", box_of_all],
    ):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [PROGRAM, "sandbox", *args],
                env=cli.env,
                cwd=cli.folder,
                stdin=subprocess.DEVNULL,
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=90,
            )
        assert done.returncode == OURS, args
        assert re.search(rb"No space left|could not write", done.stderr), (args, done.stderr)


def test_what_is_not_there(cli: Cli, box_of_all: str) -> None:
    for args, says in (
        (["cp", "gone", f"{box_of_all}:x"], "gone: No such file"),
        (["cp", f"{box_of_all}:gone", "x"], "/workspace/gone: is not there"),
        (["cp", "a", "b"], "one of the two must be BOX:PATH"),
        (["cp", "nosuchbox:a", "b"], 'the id or the name "nosuchbox"'),
        (["cat", f"{box_of_all}:gone"], "file_not_found"),
        (["cat", "x"], "must be BOX:PATH"),
        (["exec", "nosuchbox", "true"], 'the id or the name "nosuchbox"'),
    ):
        done = cli("sandbox", *args)
        assert done.returncode == USAGE, args
        assert says in done.stderr.decode()
    assert not (cli.folder / "x").exists()


# --- run ------------------------------------------------------------------------------------------


def test_run_on_a_server(cli: Cli, server: Server) -> None:
    (cli.folder / "hw.py").write_text("import sys; print(6 * 7, sys.stdin.read())")
    where = ("--label", "cli=run", "--file", "hw.py:sub/hw.py")
    done = cli("sandbox", "run", *where, "--", "python3", "sub/hw.py", stdin=b"in")
    assert (done.returncode, done.stdout) == (0, b"42 in\n")
    assert cli("sandbox", "run", "--", "sh", "-c", "exit 9").returncode == 9
    done = cli("sandbox", "run", "--json", "--", "sh", "-c", "echo out; exit 9")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["status"], answer["stdout"]) == (9, 9, "out\n")
    assert cli("sandbox", "run", "--timeout", "300ms", "--", "sleep", "60").returncode == 124
    assert cli("sandbox", "run", "--file", "gone:x", "--", "true").returncode == USAGE
    # nothing stays, not even a record
    listed = cli.good("sandbox", "ls", "--all", "--json", "--label", "cli=run")
    assert json.loads(listed) == []


def test_run_that_is_interrupted_leaves_nothing(cli: Cli) -> None:
    command = cli.start("sandbox", "run", "--label", "cli=int", "--", "sh", "-c", "echo; sleep 300")
    assert command.stdout and command.stdout.readline()
    command.send_signal(signal.SIGINT)
    assert command.wait(60) == 130
    assert json.loads(cli.good("sandbox", "ls", "-a", "--json", "--label", "cli=int")) == []


def test_where_run_runs_is_never_a_riddle(cli: Cli) -> None:
    done = cli("sandbox", "run", "--cpu-time", "1s", "--", "true")
    assert done.returncode == USAGE
    assert b"--cpu-time is for a run on this host" in done.stderr and b"--local" in done.stderr
    assert cli("sandbox", "run", "--local", "--cpu-time", "1s", "--", "true").returncode == 0
    done = cli("sandbox", "run", "--local", "--remote", "--", "true")
    assert done.returncode == USAGE and b"exclude each other" in done.stderr
    none = {"SEALMARK_API_URL": "", "SEALMARK_API_KEY": ""}
    done = cli("sandbox", "run", "--remote", "--", "true", **none)
    assert done.returncode == USAGE and b"no server is known" in done.stderr
    done = cli("sandbox", "run", "--vcpu", "1", "--", "true", **none)
    assert done.returncode == USAGE and b"--vcpu is for a server" in done.stderr
    assert cli("sandbox", "run", "--", "true", **none).returncode == 0
    done = cli("sandbox", "run", "--", "true", SEALMARK_API_URL="http://127.0.0.1:1")
    assert done.returncode == OURS and b"cannot reach http://127.0.0.1:1" in done.stderr


# --- login ----------------------------------------------------------------------------------------


def test_a_key_is_kept_and_forgotten(cli: Cli, server: Server) -> None:
    none = {"SEALMARK_API_URL": "", "SEALMARK_API_KEY": ""}
    done = cli("login", "--with-key", server.url, stdin=b"rtcloud_wrong\n", **none)
    assert done.returncode == OURS and b"unauthorized" in done.stderr
    assert cli("sandbox", "ls", **none).returncode == USAGE
    cli.good("login", "--with-key", server.url, stdin=server.key.encode() + b"\n", **none)
    file = cli.folder / "config" / "sealmark" / "credentials.json"
    assert file.stat().st_mode & 0o777 == 0o600
    cli.good("sandbox", "ls", **none)
    # the key is for this server alone
    done = cli("sandbox", "ls", "--api-url", "http://127.0.0.1:1", **none)
    assert done.returncode == USAGE and b"no key for http://127.0.0.1:1" in done.stderr
    told = json.loads(cli.good("logout", "--json", **none))
    assert told == {"url": server.url}
    assert server.key not in file.read_text()
    assert cli("sandbox", "ls", **none).returncode == USAGE


# --- which server ---------------------------------------------------------------------------------


def test_no_server_and_no_key(cli: Cli) -> None:
    done = cli("sandbox", "ls", SEALMARK_API_URL="", SEALMARK_API_KEY="")
    assert done.returncode == USAGE
    assert b"no server is known" in done.stderr
    done = cli("sandbox", "ls", SEALMARK_API_KEY="")
    assert done.returncode == USAGE
    assert b"no key for" in done.stderr
    done = cli("sandbox", "ls", SEALMARK_API_KEY="rtcloud_wrong")
    assert done.returncode == OURS
    assert b"unauthorized" in done.stderr


def test_the_names_of_the_public_client_are_known(cli: Cli) -> None:
    key, url = cli.env["SEALMARK_API_KEY"], cli.env["SEALMARK_API_URL"]
    names = {"SEALMARK_API_KEY": "", "SEALMARK_API_URL": ""}
    assert cli.good("sandbox", "ls", **names, RUNTIME_API_KEY=key, RUNTIME_API_URL=url + "/")


def test_keys_of_another_host_are_not_those_of_the_store_here(cli: Cli) -> None:
    elsewhere = {"SEALMARK_API_URL": "https://sealmark.example"}
    for args in (["create", "x"], ["ls"], ["revoke", "x"]):
        done = cli("keys", *args, **elsewhere)
        assert done.returncode == USAGE
        assert b"made and revoked by a person there" in done.stderr
    assert cli("keys", "ls").returncode == 0
    store = str(Path(cli.env["SEALMARK_HOME"]) / "sealmark.db")
    assert cli("keys", "ls", "--store", store, **elsewhere).returncode == 0


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://sealmark.example", "in the clear"),
        ("http://127.sealmark.example", "in the clear"),
        ("http://localhost.sealmark.example", "in the clear"),
        ("ftp://localhost", "begins with https://"),
        ("https://user:pw@localhost", "only scheme, host and port"),
        ("http://localhost:8080/path", "only scheme, host and port"),
        ("unix:relative", "absolute path"),
    ],
)
def test_addresses_that_are_refused(cli: Cli, url: str, says: str) -> None:
    done = cli("sandbox", "ls", "--api-url", url)
    assert done.returncode == USAGE
    assert says in done.stderr.decode()


def test_a_unix_socket(tmp_path: Path) -> None:
    server = Server(make_home())
    path = tmp_path / "s.sock"
    server.process = subprocess.Popen(
        [PROGRAM, "serve", "--engine", "fake", "--listen", f"unix:{path}"],
        env=server.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.process.stdout
        assert "listening" in server.process.stdout.readline()
        server.key = server.make_key()
        cli = Cli(server, tmp_path)
        assert "no sandbox" in cli.good("sandbox", "ls", SEALMARK_API_URL=f"unix:{path}")
    finally:
        server.close()


def test_certificates_are_checked(tmp_path: Path) -> None:
    server = Server(make_home(), ["--engine", "fake"])
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        [*make, *name, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True
    )
    try:
        server.start("--tls-cert", str(cert), "--tls-key", str(key))
        cli = Cli(server, tmp_path)
        right, wrong = (f"https://{name}:{server.port}" for name in ("localhost", "127.0.0.1"))
        assert "no sandbox" in cli.good(
            "sandbox", "ls", "--ca-file", "cert.pem", SEALMARK_API_URL=right
        )
        assert cli("whoami", SEALMARK_API_URL=right, SEALMARK_CA_FILE=str(cert)).returncode == 0
        for url, more in ((right, {}), (wrong, {"SEALMARK_CA_FILE": str(cert)})):
            done = cli("sandbox", "ls", SEALMARK_API_URL=url, **more)
            assert done.returncode == OURS
            assert b"certificate is not trusted" in done.stderr
        done = cli("sandbox", "ls", "--ca-file", "gone.pem", SEALMARK_API_URL=right)
        assert done.returncode == OURS and b"gone.pem" in done.stderr
    finally:
        server.close()


# --- processes ------------------------------------------------------------------------------------


def test_a_process_in_the_background(cli: Cli, box_of_all: str) -> None:
    script = "printf 'a\\377\\n'; echo e >&2; read -r x < fifo; echo got $x; exit 6"
    cli.good("sandbox", "exec", box_of_all, "sh", "-c", "rm -f fifo; mkfifo fifo")
    process = cli.good("sandbox", "spawn", box_of_all, "--", "sh", "-c", script).strip()
    rows = json.loads(cli.good("sandbox", "ps", box_of_all, "--json"))
    assert {"running"} == {row["state"] for row in rows if row["id"] == process}
    assert process in cli.good("sandbox", "ps", box_of_all)
    follow = cli.start("sandbox", "logs", "--follow", box_of_all, process)
    assert follow.stdout and follow.stdout.readline() == b"a\xff\n"
    cli.good("sandbox", "exec", box_of_all, "sh", "-c", "echo 42 > fifo")
    out, err = follow.communicate(timeout=60)
    assert (follow.returncode, out, err) == (6, b"got 42\n", b"e\n")
    done = cli("sandbox", "logs", box_of_all, process)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a\xff\ngot 42\n", b"e\n")


@pytest.mark.parametrize("name", ["TERM", "SIGINT", "9"])
def test_a_process_is_killed(cli: Cli, box_of_all: str, name: str) -> None:
    process = cli.good("sandbox", "spawn", box_of_all, "--", "sleep", "300").strip()
    cli.good("sandbox", "kill", "-s", name, box_of_all, process)
    number = {"TERM": 15, "SIGINT": 2, "9": 9}[name]
    assert cli("sandbox", "logs", "-f", box_of_all, process).returncode == 128 + number
    # what has ended is not there to be killed
    done = cli("sandbox", "kill", box_of_all, process)
    assert done.returncode == USAGE and b"not_running" in done.stderr
    assert cli("sandbox", "logs", box_of_all, "no-such-process").returncode == USAGE


# --- who and how much -----------------------------------------------------------------------------


def test_whoami_limits_and_usage(cli: Cli, server: Server, box_of_all: str) -> None:
    me = json.loads(cli.good("whoami", "--json"))
    assert me["key"]["access"] == "full"
    text = cli.good("whoami")
    assert server.url in text and me["key"]["id"] in text
    limits = json.loads(cli.good("limits", "--json"))
    assert {row["limit"] for row in limits["account"]} >= {"sandbox.count", "sandbox.memory_mib"}
    assert "Sandboxes at once" in cli.good("limits")
    done = cli.good("sandbox", "create", "--label", "cli=usage").strip()
    cli.good("sandbox", "rm", done)
    rows = json.loads(cli.good("usage", "--by", "label", "--label", "cli", "--json"))
    assert "usage" in str([row["key"] for row in rows])
    # the store here is the same one: same numbers without the server
    here = json.loads(cli.good("usage", "--local", "--by", "label", "--label", "cli", "--json"))
    mine = [row for row in here if row["key"] in {row["key"] for row in rows}]
    assert [row["sandboxes"] for row in mine] >= [row["sandboxes"] for row in rows]
    assert cli.good("usage", "--csv").count("\r\n") >= 2
    done = cli("usage", "--key", "x")
    assert done.returncode == USAGE and b"--local" in done.stderr


# --- images ---------------------------------------------------------------------------------------


def test_images_of_the_server(cli: Cli) -> None:
    rows = json.loads(cli.good("image", "ls", "--json"))
    default = next(row for row in rows if row["name"] == "default")
    assert "default" in cli.good("image", "ls")
    assert cli.good("image", "versions", "default").count("default") >= 1
    shown = json.loads(cli.good("image", "show", "default", "--json"))
    assert shown["id"] in {row["id"] for row in rows}
    assert f"default@{shown['version']}" in cli.good("image", "show", shown["id"])
    assert default["state"] == "ready"
    # here the same names, from the disk, with what only this host knows
    assert "packages" in json.loads(cli.good("image", "show", "default", "--local", "--json"))
    done = cli("image", "show", "nonsuch")
    assert done.returncode == USAGE and b"image_not_found" in done.stderr
    done = cli("image", "show", "default", "--verify")
    assert done.returncode == USAGE and b"--local" in done.stderr
