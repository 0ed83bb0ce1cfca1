# SPDX-License-Identifier: Apache-2.0
"""sealmark sandbox run on the scripted engine: what it makes of every end a machine can have."""

import json
import signal
import subprocess
from collections.abc import Callable

import pytest

from support import Sealmark

OURS = 3
FAKE = ("sandbox", "run", "--require-isolation", "none", "--engine", "fake", "--script")
Fake = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def fake(sealmark: Sealmark, leftovers: None) -> Fake:
    """Runs `prog` under a script; further arguments are options."""

    def run(script: str, *options: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        path = sealmark.cwd / "script"
        path.write_text(script)
        return sealmark.run(*FAKE, path, *options, "--", "prog", stdin=stdin)

    return run


ENDINGS = [
    ("exit 0", 0, ""),
    ("exit 42", 42, ""),
    ("exit 255", 255, ""),
    ("signal 11", 128 + 11, ""),
    ("end cpu_limit", 124, "sealmark: CPU time limit of 2s reached (--cpu-time)\n"),
    ("end wall_limit", 124, "sealmark: time limit of 90s reached (--timeout)\n"),
    ("end memory_limit", 137, "sealmark: memory limit of 64M reached (--memory)\n"),
]


@pytest.mark.parametrize(("step", "status", "message"), ENDINGS, ids=lambda v: str(v))
def test_endings(fake: Fake, step: str, status: int, message: str) -> None:
    limits = ("--cpu-time", "2s", "--timeout", "90", "--memory", "64M")
    done = fake(f'exec "prog" stdout "out\\n" stderr "err\\n" {step}\n', *limits)
    assert done.returncode == status
    assert done.stdout == b"out\n"
    assert done.stderr.decode() == "err\n" + message


@pytest.mark.parametrize(
    ("step", "state", "code", "status"),
    [
        ("exit 42", "exited", 42, 42),
        ("signal 11", "killed", None, 139),
        ("end wall_limit", "timed_out", None, 124),
    ],
)
def test_the_end_as_json(fake: Fake, step: str, state: str, code: int | None, status: int) -> None:
    script = f'exec "prog" stdout "out\\n" stderr "\\xff" {step}\n'
    done = fake(script, "--json", "--timeout", "90")
    assert done.returncode == status
    answer = json.loads(done.stdout)
    assert (answer["state"], answer["exitCode"], answer["status"]) == (state, code, status)
    assert answer["timedOut"] == (state == "timed_out")
    assert (answer["stdout"], answer["stderrBase64"]) == ("out\n", "/w==")
    assert not answer["stdoutTruncated"]


def test_boot_is_not_in_the_timeout(fake: Fake) -> None:
    """A limit below the time that a machine needs to start is enough for a quick command."""
    assert fake('boot delay 7000\nexec "prog" exit 0\n', "--timeout", "5s").returncode == 0


def test_json_keeps_a_part_of_much_output(fake: Fake) -> None:
    done = fake('exec "prog" flood 100000 exit 0\n', "--json", "--output-limit", "10k")
    answer = json.loads(done.stdout)
    assert len(answer["stdout"]) <= 10_240
    assert answer["stdoutTruncated"]


def test_streams_are_passed_unchanged(fake: Fake) -> None:
    data = bytes(range(256)) * 40_000
    done = fake('exec "prog" echo exit 0\n', stdin=data)
    assert done.returncode == 0
    assert done.stdout == data


def test_output_has_no_limit_of_ours(fake: Fake) -> None:
    """The sandbox keeps 64 MiB of a program's output; what streams through is not kept."""
    done = fake('exec "prog" flood 80000000 exit 0\n')
    assert done.returncode == 0
    assert len(done.stdout) == 80_000_000


TROUBLES = [
    "boot die\n",
    "boot garbage\n",
    "boot version 99\n",
    "die at EXEC\n",
    "garbage at EXEC\n",
    "half at EXEC\n",
    'send at EXEC "\\xff\\xff\\xff\\xff\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00"\n',
]


@pytest.mark.parametrize("script", TROUBLES, ids=str.strip)
def test_broken_machines_are_our_failure(fake: Fake, script: str) -> None:
    """Never the status of a command, and never silent."""
    done = fake(script)
    assert done.returncode == OURS
    assert done.stderr.startswith(b"sealmark: ")
    assert done.stderr.count(b"\n") == 1
    assert done.stdout == b""


def test_machine_that_dies_in_the_middle(sealmark: Sealmark, leftovers: None) -> None:
    """What came before is passed on; then the failure is told."""
    script = sealmark.cwd / "script"
    script.write_text('exec "prog" stdout "half" echo exit 0\ndie at DATA\n')
    run = sealmark.start(*FAKE, script, "--", "prog", bufsize=0)
    assert run.stdout
    assert run.stdout.read(4) == b"half"
    out, err = run.communicate(b"x", timeout=60)
    assert run.returncode == OURS
    assert out == b""
    assert err.startswith(b"sealmark: ")
    assert err.count(b"\n") == 1


def test_script_with_an_error(fake: Fake) -> None:
    done = fake("boot sideways\n")
    assert done.returncode == OURS
    assert b"script:1:" in done.stderr


def test_weak_isolation_is_refused(fake: Fake) -> None:
    """The last option counts: what the fixture asks for is overruled."""
    for level in ("process", "kernel", "hardware"):
        done = fake("", "--require-isolation", level)
        assert done.returncode == OURS
        assert f'"{level}" is required'.encode() in done.stderr


def test_unknown_engine(sealmark: Sealmark) -> None:
    done = sealmark.run("sandbox", "run", "--engine", "umm", "--", "true")
    assert done.returncode != 0
    assert b"umm" in done.stderr
    assert b"uml" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals(sealmark: Sealmark, leftovers: None, number: signal.Signals) -> None:
    script = sealmark.cwd / "script"
    script.write_text('exec "prog" stdout "up\\n" hang\n')
    run = sealmark.start(*FAKE, script, "--", "prog", bufsize=0)
    assert run.stdout
    assert run.stdout.read(3) == b"up\n"
    run.send_signal(number)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 128 + number
    assert err == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ignored_signals_stay_ignored(
    sealmark: Sealmark, leftovers: None, number: signal.Signals
) -> None:
    """As nohup and the shell's & leave them."""
    script = sealmark.cwd / "script"
    script.write_text('exec "prog" stdout "up\\n" echo exit 5\n')
    run = sealmark.start(
        *FAKE,
        script,
        *("--", "prog"),
        bufsize=0,
        preexec_fn=lambda: signal.signal(number, signal.SIG_IGN),
    )
    assert run.stdout
    assert run.stdout.read(3) == b"up\n"
    run.send_signal(number)
    out, _ = run.communicate(b"goes on", timeout=60)
    assert run.returncode == 5
    assert out == b"goes on"


def test_closed_pipe(sealmark: Sealmark, leftovers: None) -> None:
    script = sealmark.cwd / "script"
    script.write_text('exec "prog" flood 100000000 exit 0\n')
    run = sealmark.start(*FAKE, script, "--", "prog", bufsize=0)
    assert run.stdout
    assert run.stdout.read(5) == b"xxxxx"
    run.stdout.close()
    assert run.wait(timeout=60) == 141
    assert run.stderr
    assert run.stderr.read() == b""


def test_files_reach_the_machine(fake: Fake, sealmark: Sealmark) -> None:
    (sealmark.cwd / "a.txt").write_bytes(b"x" * 100_000)
    (sealmark.cwd / "folder/sub").mkdir(parents=True)
    (sealmark.cwd / "folder/sub/b").write_text("b")
    options = ("--file", "a.txt:/workspace/a.txt", "-f", "folder:/workspace")
    assert fake("", *options).returncode == 0
    done = fake("die at FILE_WRITE\n", *options)
    assert done.returncode == OURS
    assert b"--file a.txt:/workspace/a.txt" in done.stderr
    done = fake("die at TAR_IN\n", *options)
    assert done.returncode == OURS
    assert b"--file folder:/workspace" in done.stderr
