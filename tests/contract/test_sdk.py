# SPDX-License-Identifier: Apache-2.0
"""The SDKs of sdk/ against a running server: the programs that must run, their READMEs."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playing import play

from serving import Server, make_home
from support import PROGRAM
from typescript import PACKAGE as TYPESCRIPT
from typescript import build as build_typescript
from typescript import environment as clean_environment
from typescript import readme_blocks

SDK = Path(__file__).resolve().parents[2] / "sdk"
PYTHON = SDK / "python"


def environment(server: Server) -> dict[str, str]:
    return {
        **clean_environment(),
        "SEALMARK_API_URL": server.url,
        "SEALMARK_API_KEY": server.key,
        "PYTHONPATH": str(PYTHON / "src"),
    }


def run(server: Server, *command: object) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env=environment(server),
        capture_output=True,
        text=True,
        timeout=390,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """What a student handed in, and the tests of it."""
    student, tests = tmp_path / "student", tmp_path / "tests"
    student.mkdir()
    tests.mkdir()
    (student / "hw.py").write_text("def double(x):\n    return 2 * x\n")
    (tests / "test_hw.py").write_text(
        "from hw import double\n\n\ndef test_double():\n    assert double(21) == 42\n"
    )
    return student, tests


# --- Python -----------------------------------------------------------------------------------

BLOCKS = re.findall(r"^```python\n(.*?)^```$", (PYTHON / "README.md").read_text(), re.M | re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_readme(block: str, server: Server) -> None:
    run(server, sys.executable, "-c", block)


def test_grading_a_folder(server: Server, folders: tuple[Path, Path]) -> None:
    out = run(server, sys.executable, PYTHON / "examples" / "grade.py", *folders)
    assert out.startswith("exit code 0, timed out: False\n"), out
    assert "1 passed" in out
    assert out.endswith("gone\n"), out


def test_more_students_than_there_is_room_for(own_server: Callable[..., Server]) -> None:
    server = own_server("--sandboxes", "2")
    out = run(server, sys.executable, PYTHON / "examples" / "course.py", 6)
    assert out == "".join(f"student {i}\n" for i in range(6)) + "0 left\n"


REAL = [
    pytest.param(path, number, id=f"{path.stem}: {case['name']}")
    for path in sorted(SDK.glob("cases/real/*.json"))
    for number, case in enumerate(json.loads(path.read_text()))
]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "asynchronous"])
@pytest.mark.parametrize(("path", "number"), REAL)
def test_the_cases(path: Path, number: int, asynchronous: bool, server: Server) -> None:
    text = path.read_text().replace("$unique", uuid.uuid4().hex)
    play(json.loads(text)[number], server.url, asynchronous, server.key)


@pytest.fixture
def client_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALMARK_API_URL", server.url)
    monkeypatch.setenv("SEALMARK_API_KEY", server.key)


def test_an_error_in_the_block_is_what_is_seen(client_key: None) -> None:
    from sealmark import NotFoundError, Runtime

    with Runtime() as runtime:
        with pytest.raises(ZeroDivisionError), runtime.sandboxes.create(memory_mib=128) as box:
            raise ZeroDivisionError
        with pytest.raises(NotFoundError):
            runtime.sandboxes.get(box.id)


def test_a_cancelled_task_ends_its_command(client_key: None) -> None:
    from sealmark import AsyncRuntime

    async def main() -> None:
        async with (
            AsyncRuntime() as runtime,
            await runtime.sandboxes.create(memory_mib=128) as box,
        ):
            task = asyncio.create_task(box.exec("echo $$ > pid.new; mv pid.new pid; sleep 1000"))
            async with asyncio.timeout(60):
                while not await box.files.exists("/workspace/pid"):
                    await asyncio.sleep(0.02)
                pid = (await box.files.read_text("/workspace/pid")).strip()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                while (await box.exec(["kill", "-0", pid], user="root")).exit_code == 0:
                    await asyncio.sleep(0.02)

    asyncio.run(main())


INTERRUPTED = """
import signal, sys
from sealmark import Sandbox

# whoever runs the tests in the background may have told them to ignore it
signal.signal(signal.SIGINT, signal.default_int_handler)
box = Sandbox.connect(sys.argv[1])
box.exec("echo $$; sleep 1000", on_stdout=lambda text: print(text, flush=True))
"""


def test_ctrl_c_ends_the_command(client_key: None, server: Server) -> None:
    from sealmark import Runtime

    with Runtime() as runtime, runtime.sandboxes.create(memory_mib=128) as box:
        program = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, box.id],
            env=environment(server),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert program.stdout
        pid = program.stdout.readline().strip()
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=60)
        assert program.returncode == -signal.SIGINT and "KeyboardInterrupt" in said, said
        # it was killed before the program ended; what it leaves may take a moment to be gone
        deadline = time.monotonic() + 60
        while box.exec(["kill", "-0", pid], user="root").exit_code == 0:
            assert time.monotonic() < deadline, "the command of an interrupted program runs on"


def test_a_unix_socket(own_server: Callable[..., Server], tmp_path: Path) -> None:
    from sealmark import Runtime

    server, address = own_server(start=False), f"unix:{tmp_path / 's.sock'}"
    server.process = subprocess.Popen(
        [PROGRAM, "serve", "--listen", address],
        env=server.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.process.stdout
    assert server.process.stdout.readline() == f"listening on {address}\n"
    with (
        Runtime(server.make_key(), address) as runtime,
        runtime.sandboxes.create(memory_mib=128) as box,
    ):
        assert box.exec(["echo", "hi"]).stdout == "hi\n"
        with box.terminal(command="echo there; exit 4") as terminal:
            assert b"".join(terminal) == b"there\r\n"
        assert terminal.exit_code == 4


@pytest.fixture
def secure(
    own_server: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Server, Path]:
    """A server with a certificate that this process knows; the certificate."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*make, *names, "-keyout", key, "-out", cert], check=True, capture_output=True)
    server = own_server()
    assert server.stop() == 0
    server.start("--tls-cert", str(cert), "--tls-key", str(key))
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    return server, cert


def test_a_terminal_over_tls_with_two_threads(secure: tuple[Server, Path]) -> None:
    from sealmark import Runtime

    server, _ = secure
    lines = 300
    seen: list[bytes] = []
    with (
        Runtime(server.key, f"https://127.0.0.1:{server.port}") as runtime,
        runtime.sandboxes.create(memory_mib=128) as box,
        box.terminal(command="stty -echo; echo began; exec cat") as terminal,
    ):
        while b"began" not in b"".join(seen):
            seen.append(terminal.recv(timeout=60) or b"")
        reader = threading.Thread(target=lambda: seen.extend(terminal))
        reader.start()
        for number in range(lines):
            terminal.write(f"{number:0900}\n")
        terminal.write(b"\x04")
        reader.join(120)
        assert not reader.is_alive(), "the terminal has not ended"
    assert terminal.exit_code == 0
    expected = ["began", *(f"{number:0900}" for number in range(lines))]
    assert b"".join(seen).decode().split() == expected


# --- TypeScript -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def typescript() -> Path:
    """The built package; what was made of its examples."""
    build_typescript()
    return TYPESCRIPT / "build" / "examples"


@pytest.mark.parametrize("number", range(len(readme_blocks())))
def test_the_readme_of_typescript(number: int, server: Server, typescript: Path) -> None:
    run(server, "node", typescript / "readme" / f"block{number}.js")


def test_the_cases_in_typescript(server: Server, typescript: Path) -> None:
    out = run(server, "node", "--test", typescript.parent / "contract" / "real.js")
    assert f"pass {len(REAL)}\n" in out, out


def test_grading_a_folder_in_typescript(
    server: Server, folders: tuple[Path, Path], typescript: Path
) -> None:
    out = run(server, "node", typescript / "grade.js", *folders)
    assert out.startswith("exit code 0, timed out: False\n".lower()), out
    assert "1 passed" in out
    assert out.endswith("gone\n"), out


def test_more_students_than_there_is_room_for_in_typescript(
    own_server: Callable[..., Server], typescript: Path
) -> None:
    server = own_server("--sandboxes", "2")
    out = run(server, "node", typescript / "course.js", 6)
    assert out == "".join(f"student {i}\n" for i in range(6)) + "0 left\n"


TERMINAL_OVER_TLS = """
const { Runtime } = await import(process.argv[1]);
const box = await new Runtime().sandboxes.create({ memoryMiB: 128 });
const terminal = await box.terminal({ command: "stty -echo; echo began; exec cat" });
let text = "";
const reading = (async () => {
  for await (const piece of terminal) text += Buffer.from(piece).toString();
})();
while (!text.includes("began")) await new Promise((resolve) => setTimeout(resolve, 10));
for (let number = 0; number < 300; number++) await terminal.write(`${number}`.repeat(100) + "\\n");
await terminal.write("\\x04");
await reading;
await terminal.close();
await box.close();
let expected = "began\\r\\n";
for (let number = 0; number < 300; number++) expected += `${number}`.repeat(100) + "\\r\\n";
console.log(terminal.exitCode, text === expected);
"""


def test_a_terminal_over_tls_in_typescript(secure: tuple[Server, Path], typescript: Path) -> None:
    server, cert = secure
    done = subprocess.run(
        ["node", "--input-type=module", "-e", TERMINAL_OVER_TLS, "--"]
        + [typescript.parent / "src" / "index.js"],
        env={
            **environment(server),
            "SEALMARK_API_URL": f"https://127.0.0.1:{server.port}",
            "NODE_EXTRA_CA_CERTS": str(cert),
        },
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert (done.returncode, done.stdout) == (0, "0 true\n"), done.stderr


# --- images -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def builder(has_machines: None) -> Iterator[Server]:
    """A server: its home has a folder of images of its own."""
    server = Server(make_home(), ["--rate", "2000"])
    server.start()
    yield server
    server.close()


@pytest.mark.timeout(400)
def test_the_image_of_a_course(builder: Server, typescript: Path) -> None:
    out = run(builder, sys.executable, PYTHON / "examples" / "image.py")
    assert "cs101-grader@1 is ready\n" in out, out
    assert "log: " in out
    assert "openjdk" in out.lower()
    assert out.endswith("hypothesis\n"), out
    # the same recipe on the same base is answered at once
    out = run(builder, "node", typescript / "image.js")
    assert "cs101-grader@1 is ready\n" in out, out
    assert "hypothesis\n" in out


@pytest.mark.timeout(400)
def test_a_folder_with_a_dockerfile(builder: Server, tmp_path: Path) -> None:
    from sealmark import Runtime

    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("a\n")
    (tmp_path / "large").write_bytes(os.urandom(3 << 19))  # beyond one piece
    with Runtime(builder.key, builder.url) as runtime:
        image = runtime.images.build(
            name="folder", dockerfile="FROM default\nCOPY . /course/\n", context_dir=tmp_path
        )
        with runtime.sandboxes.create(image=image.id, memory_mib=256) as box:
            assert box.files.read_text("/course/sub/a.txt") == "a\n"
            assert box.files.read("/course/large") == (tmp_path / "large").read_bytes()
