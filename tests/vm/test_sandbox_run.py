# SPDX-License-Identifier: Apache-2.0
"""sealmark sandbox run with real machines: streams, statuses, limits, files, Ctrl-C."""

import fcntl
import hashlib
import os
import random
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import IO

import pytest

from support import Sealmark, children, wait_until

PYTHON = "/usr/bin/python3"


def test_exit_status(vm: Sealmark) -> None:
    done = vm.run("sandbox", "run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert done.returncode == 7
    assert done.stdout == b"out\n"
    assert done.stderr == b"err\n"


def test_status_zero_and_operands_without_dashes(vm: Sealmark) -> None:
    done = vm.run("sandbox", "run", "printf", "%s|", "-x", "--memory", "a b", "")
    assert done.returncode == 0
    assert done.stdout == b"-x|--memory|a b||"
    assert done.stderr == b""


def test_signal_is_128_and_its_number(vm: Sealmark) -> None:
    done = vm.run("sandbox", "run", "--", "sh", "-c", "kill -TERM $$")
    assert done.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("argv", "status"), [(["no-such-program"], 127), (["/etc/passwd"], 126), (["/etc"], 126)]
)
def test_what_cannot_be_started(vm: Sealmark, argv: list[str], status: int) -> None:
    done = vm.run("sandbox", "run", "--", *argv)
    assert done.returncode == status
    assert argv[0].encode() in done.stderr


def test_the_user_is_root_through_sudo(vm: Sealmark) -> None:
    done = vm.run("sandbox", "run", "--", "sh", "-c", "id -u; sudo -n id -u; sudo -n touch /etc/x")
    assert (done.returncode, done.stdout) == (0, b"1000\n0\n"), done.stderr


# --- streams ----------------------------------------------------------------------------------


def test_stdin_is_passed_unchanged(vm: Sealmark) -> None:
    data = random.Random(1).randbytes(10_000_000)
    done = vm.run("sandbox", "run", "--", "sha256sum", stdin=data)
    assert done.returncode == 0
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_output_comes_back_unchanged(vm: Sealmark) -> None:
    data = random.Random(2).randbytes(10_000_000)
    done = vm.run("sandbox", "run", "--", "cat", stdin=data)
    assert done.returncode == 0
    assert done.stdout == data


def test_unread_stdin_does_not_hold_the_end(vm: Sealmark) -> None:
    run = vm.start("sandbox", "run", "--", "true")
    assert run.wait(timeout=60) == 0
    run.communicate()


def test_no_stdin(vm: Sealmark) -> None:
    run = vm.start("sandbox", "run", "--", "wc", "-c", stdin=subprocess.DEVNULL)
    out, _ = run.communicate(timeout=60)
    assert out.strip() == b"0"


def test_output_streams_while_the_command_runs(vm: Sealmark) -> None:
    """Each line comes back before the next is asked for."""
    run = vm.start("sandbox", "run", "--", "cat", bufsize=0)
    assert run.stdin
    assert run.stdout
    for line in (b"one\n", b"two\n", b"three\n"):
        run.stdin.write(line)
        ready, _, _ = select.select([run.stdout], [], [], 60)
        assert ready
        assert run.stdout.read(len(line)) == line
    run.stdin.close()
    assert run.wait(timeout=60) == 0
    assert run.stderr
    assert run.stderr.read() == b""


def test_closed_pipe_ends_quietly(vm: Sealmark) -> None:
    """As with `sealmark sandbox run -- yes | head -c 5`."""
    run = vm.start("sandbox", "run", "--", "yes")
    assert run.stdout
    assert run.stdout.read(5) == b"y\ny\ny"
    run.stdout.close()
    assert run.wait(timeout=60) == 141
    assert run.stderr
    assert run.stderr.read() == b""


def test_terminal_as_stdin(vm: Sealmark) -> None:
    master, slave = os.openpty()
    run = vm.start("sandbox", "run", "--", "head", "-n", "1", stdin=slave)
    os.close(slave)
    os.write(master, b"typed\n")
    out, err = run.communicate(timeout=60)
    os.close(master)
    assert run.returncode == 0
    assert out == b"typed\n"
    assert err == b""


# --- limits -----------------------------------------------------------------------------------


def test_timeout_is_124(vm: Sealmark) -> None:
    done = vm.run("sandbox", "run", "--timeout", "4s", "--", "sh", "-c", "echo before; sleep 999")
    assert done.returncode == 124
    assert done.stdout == b"before\n"
    assert done.stderr == b"sealmark: time limit of 4s reached (--timeout)\n"


def test_cpu_time_is_124(vm: Sealmark) -> None:
    done = vm.run(
        "sandbox", "run", "--cpu-time", "300ms", "--", "sh", "-c", "while :; do :; done", timeout=60
    )
    assert done.returncode == 124
    assert done.stderr == b"sealmark: CPU time limit of 300ms reached (--cpu-time)\n"


def test_memory_limit_is_137(vm: Sealmark) -> None:
    code = "b = bytearray(300 << 20); print(len(b))"
    done = vm.run("sandbox", "run", "--memory", "128M", "--", PYTHON, "-c", code)
    assert done.returncode == 137
    assert done.stdout == b""
    assert b"memory limit of 128M reached (--memory)" in done.stderr


def test_memory_up_to_the_limit_is_there(vm: Sealmark) -> None:
    code = "b = bytearray(200 << 20); print(len(b))"
    done = vm.run("sandbox", "run", "--memory", "256M", "--", PYTHON, "-c", code)
    assert done.returncode == 0
    assert done.stdout == b"209715200\n"


def test_output_limit(vm: Sealmark) -> None:
    done = vm.run("sandbox", "run", "--output-limit", "1000", "--", "yes")
    assert done.returncode != 0
    assert done.stdout == b"y\n" * 500
    assert b"output limit of 1000 reached (--output-limit)" in done.stderr


def test_process_limit(vm: Sealmark) -> None:
    script = "for i in 1 2 3 4 5 6 7 8; do sleep 5 & done; wait"
    done = vm.run("sandbox", "run", "--processes", "4", "--", "bash", "-c", script)
    assert done.returncode != 0
    assert b"limit of 4 processes" in done.stderr


def test_disk_limit(vm: Sealmark) -> None:
    done = vm.run(
        "sandbox", "run", "--disk", "8M", "--", "dd", "if=/dev/zero", "of=big", "bs=1M", "count=32"
    )
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr
    assert b"disk of 8M was full (--disk)" in done.stderr


# --- what is inside ---------------------------------------------------------------------------


def test_environment(vm: Sealmark) -> None:
    vm.env["SECRET_OF_THE_HOST"] = "1"
    done = vm.run("sandbox", "run", "--env", "A=1=2", "-e", "LANG=C", "-eEMPTY=", "--", "env")
    env = dict(line.split("=", 1) for line in done.stdout.decode().splitlines())
    assert env["A"] == "1=2"
    assert env["LANG"] == "C"
    assert env["EMPTY"] == ""
    assert env["HOME"] == "/workspace"
    assert "/usr/bin" in env["PATH"]
    assert "SECRET_OF_THE_HOST" not in env
    assert not [name for name in env if name.startswith("SEALMARK")]


def test_user_and_directory(vm: Sealmark) -> None:
    script = "id -u; id -g; pwd; touch mine && echo writable"
    done = vm.run("sandbox", "run", "--", "sh", "-c", script)
    assert done.stdout.split() == [b"1000", b"1000", b"/workspace", b"writable"]
    done = vm.run("sandbox", "run", "--user", "1234:99", "--cwd", "/tmp", "--", "sh", "-c", script)
    assert done.stdout.split() == [b"1234", b"99", b"/tmp", b"writable"]
    done = vm.run("sandbox", "run", "-u0", "-w/root", "--", "sh", "-c", script)
    assert done.stdout.split() == [b"0", b"0", b"/root", b"writable"]


def test_no_network(vm: Sealmark) -> None:
    code = """
import socket, os
print(sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else ["lo"])
for family, address in [(socket.AF_INET, ("1.1.1.1", 80)), (socket.AF_INET6, ("2606:4700::1", 80))]:
    try:
        socket.socket(family).connect(address)
        print("connected")
    except OSError as e:
        print("refused")
"""
    done = vm.run("sandbox", "run", "--timeout", "5s", "--", PYTHON, "-c", code)
    assert done.returncode == 0
    assert done.stdout.decode().splitlines() == ["['lo']", "refused", "refused"]


# --- files ------------------------------------------------------------------------------------


def test_file_into_the_machine(vm: Sealmark) -> None:
    data = random.Random(3).randbytes(3_000_000)
    (vm.cwd / "data: 1").write_bytes(data)
    (vm.cwd / "run.sh").write_text("#!/bin/sh\nsha256sum data\nstat -c '%U %a' run.sh sub/deep/x\n")
    (vm.cwd / "run.sh").chmod(0o750)
    done = vm.run(
        *("sandbox", "run"),
        *("--file", "data: 1:/workspace/data"),
        *("--file", "run.sh:/workspace/"),
        *("--file", "run.sh:sub/deep/x"),
        *("--", "./run.sh"),
    )
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0].split()[0] == hashlib.sha256(data).hexdigest()
    assert lines[1:] == ["runtime 750", "runtime 750"]


def test_file_where_only_root_may_write(vm: Sealmark) -> None:
    (vm.cwd / "tool").write_text("#!/bin/sh\necho tool\n")
    (vm.cwd / "tool").chmod(0o755)
    done = vm.run(
        *("sandbox", "run", "--file", "tool:/usr/local/bin/mytool"),
        *("--", "sh", "-c", "mytool; stat -c %U /usr/local/bin/mytool"),
    )
    assert done.stdout == b"tool\nruntime\n", done.stderr
    assert done.stderr == b""
    (vm.cwd / "folder").mkdir()
    (vm.cwd / "folder/file").write_text("x")
    done = vm.run(
        *("sandbox", "run", "--file", "folder:/opt/new"),
        *("--", "sh", "-c", "stat -c %U /opt/new /opt/new/file; touch /opt/new/mine"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"runtime\nruntime\n"


def test_directory_into_the_machine(vm: Sealmark) -> None:
    top = vm.cwd / "hw3"
    (top / "pkg/empty").mkdir(parents=True)
    (top / "pkg/mod.py").write_text("x = 'found'\n")
    (top / "naïve 名.txt").write_text("ok")
    (top / "link.py").symlink_to("pkg/mod.py")
    script = "python3 -c 'import pkg.mod as m; print(m.x)'; cat naïve*; ls -d pkg/empty"
    script += "; readlink link.py"
    done = vm.run("sandbox", "run", "--file", "hw3:/workspace", "--", "sh", "-c", script)
    assert done.stdout.decode() == "found\nokpkg/empty\npkg/mod.py\n", done.stderr
    done = vm.run(
        "sandbox", "run", "-f", "hw3:/workspace/a/b", "--", "find", ".", "-user", "runtime"
    )
    assert b"./a/b/pkg/mod.py\n" in done.stdout, done.stderr


def test_file_that_does_not_fit(vm: Sealmark) -> None:
    (vm.cwd / "big").write_bytes(b"x" * (6 << 20))
    done = vm.run("sandbox", "run", "--disk", "2M", "--file", "big:big", "--", "true")
    assert done.returncode == 3
    assert b"--file big:big" in done.stderr
    assert b"--disk" in done.stderr


# --- the end ----------------------------------------------------------------------------------


def wait_for(run: subprocess.Popen[bytes], text: bytes) -> None:
    assert run.stdout
    assert run.stdout.read(len(text)) == text


def waiting_bytes(pipe: IO[bytes]) -> int:
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it(vm: Sealmark, number: signal.Signals) -> None:
    run = vm.start("sandbox", "run", "--", "sh", "-c", "echo up; exec sleep 99", bufsize=0)
    wait_for(run, b"up\n")
    run.send_signal(number)
    assert run.wait(timeout=60) == 128 + number
    assert run.stderr
    assert run.stderr.read() == b""


def test_ctrl_c_reaches_the_whole_group(vm: Sealmark) -> None:
    """A terminal signals every process of the foreground group, the monitor too."""
    run = vm.start(
        *("sandbox", "run", "--", "sh", "-c", "echo up; exec sleep 99"),
        bufsize=0,
        start_new_session=True,
    )
    wait_for(run, b"up\n")
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait(timeout=60) == 130
    assert run.stderr
    assert run.stderr.read() == b""


def test_ctrl_c_while_nobody_reads(vm: Sealmark) -> None:
    """Its reader has stopped reading: the pipe is full, and the signal is heard all the same."""
    run = vm.start("sandbox", "run", "--", "yes")
    assert run.stdout
    wait_for(run, b"y\n")
    full = fcntl.fcntl(run.stdout, fcntl.F_GETPIPE_SZ) - select.PIPE_BUF
    wait_until(lambda: waiting_bytes(run.stdout) >= full, "the pipe to be full")
    run.send_signal(signal.SIGINT)
    assert run.wait(timeout=60) == 130


def test_killed_caller_leaves_nothing(vm: Sealmark) -> None:
    run = vm.start("sandbox", "run", "--", "sh", "-c", "echo up; exec sleep 99", bufsize=0)
    wait_for(run, b"up\n")
    run.kill()
    assert run.wait(timeout=60) == -signal.SIGKILL
    run.communicate()


def test_signal_while_it_starts(vm: Sealmark) -> None:
    """Whenever it comes, it ends the command, and the machine goes too."""
    for delay_ms in (0, 5, 20, 40, 60, 80, 120):
        run = vm.start("sandbox", "run", "--", "sleep", "99")
        time.sleep(delay_ms / 1000)  # the moment is what is varied; nothing is waited for
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=60) in (130, -signal.SIGINT)
        run.communicate()


def test_daemons_of_the_command_end_with_it(vm: Sealmark) -> None:
    script = "setsid sleep 9999 >/dev/null 2>&1 & exit 3"
    assert vm.run("sandbox", "run", "--", "sh", "-c", script).returncode == 3


def test_root_cannot_kill_the_agent(vm: Sealmark) -> None:
    done = vm.run("sandbox", "run", "--user", "0", "--", "sh", "-c", "kill -9 -1; exit 5")
    assert done.returncode == 5, done.stderr


def test_machine_ended_by_its_root(vm: Sealmark) -> None:
    """The command that ends its machine has no status of its own; the message says so."""
    code = "import ctypes; ctypes.CDLL(None).reboot(0x4321fedc); input()"
    done = vm.run("sandbox", "run", "--user", "0", "--", PYTHON, "-c", code)
    assert done.returncode == 3
    assert done.stderr.startswith(b"sealmark: ")
    assert b"guest_ended" in done.stderr


def test_two_at_once_do_not_meet(vm: Sealmark) -> None:
    script = "touch /tmp/mark-$0; read line; ls /tmp | grep -c mark-"
    runs = [vm.start("sandbox", "run", "--", "sh", "-c", script, str(n)) for n in range(2)]
    for run in runs:
        out, err = run.communicate(b"go\n", timeout=60)
        assert out == b"1\n", err


def test_doctor_runs_a_machine(vm: Sealmark) -> None:
    done = vm.run("doctor", "--run")
    text = done.stdout.decode()
    assert done.returncode == 0, text
    assert "ready after" in text
    assert "This host can grade." in text


def test_nothing_is_running_between_runs(vm: Sealmark) -> None:
    """The end of the program is the end of its machine, not the begin of its end."""
    assert vm.run("sandbox", "run", "--", "true").returncode == 0
    assert children() == set()
    sandboxes = vm.home / "sandboxes"
    assert not sandboxes.is_dir() or not list(sandboxes.iterdir())


def test_home_keeps_no_secret_of_a_run(vm: Sealmark) -> None:
    (vm.cwd / "token").write_text("a-secret-of-the-run")
    assert vm.run("sandbox", "run", "--file", "token:token", "--", "true").returncode == 0
    own: list[Path] = [p for p in vm.home.iterdir() if not p.is_symlink()]
    for path in (q for p in own for q in [p, *p.rglob("*")] if q.is_file()):
        assert b"a-secret-of-the-run" not in path.read_bytes()
