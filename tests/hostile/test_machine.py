# SPDX-License-Identifier: Apache-2.0
"""Attacks on the machine itself, from a student and from the guest's own root."""

import contextlib
import os
import random
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from hostile.classroom import SUBMISSIONS, Watch
from support import Sealmark

STUDENT, ROOT = "1000", "0"
NETWORK = SUBMISSIONS / "suite" / "t17_network.py"
LIMITS = ("--memory", "64M", "--processes", "32", "--timeout", "5s", "--disk", "16M")
CRASH = """
import ctypes, mmap, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
def put(path, data):
    try:
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, data)
    except OSError:
        pass
what = sys.argv[1]
if what == "kill all":
    for _ in range(3):
        try:
            os.kill(-1, signal.SIGKILL)
        except OSError:
            pass
elif what == "kill init":
    for number in (9, 15, 11, 6, 19, 4):
        os.kill(1, number)
elif what == "reboot":
    for command in (0x01234567, 0xCDEF0123, 0x4321FEDC, 0xA1B2C3D4, 0x45584543):
        libc.syscall(169, 0xFEE1DEAD, 672274793, command, 0)
elif what == "sysrq":
    put("/proc/sys/kernel/sysrq", b"1")
    for letter in b"cbo":
        put("/proc/sysrq-trigger", bytes([letter]))
elif what == "memory":
    for path in ("/dev/mem", "/dev/kmem", "/proc/kcore", "/dev/port", "/proc/1/mem"):
        try:
            fd = os.open(path, os.O_RDWR)
            for at in range(0, 64 << 20, 4096):
                os.pwrite(fd, b"\\xff" * 4096, at)
        except OSError:
            pass
elif what == "trace init":
    for request in (16, 0x4206):
        libc.ptrace(request, 1, 0, 0)
    try:
        maps = open("/proc/1/maps").read().splitlines()
        fd = os.open("/proc/1/mem", os.O_RDWR)
        for line in maps:
            start, end = (int(each, 16) for each in line.split()[0].split("-"))
            try:
                os.pwrite(fd, b"\\xcc" * (end - start), start)
            except OSError:
                pass
    except OSError:
        pass
elif what == "mounts":
    os.system("mount -o remount,rw /proc; mount -o remount,rw /sys; umount -l /proc /dev /run /sys;"
              "mount -t tmpfs none /workspace; rm -rf /usr/bin /image /layer 2>/dev/null")
elif what == "out of memory":
    for _ in range(64):
        if os.fork() == 0:
            put("/proc/self/oom_score_adj", b"-1000")
            held = []
            while True:
                held.append(b"x" * (1 << 20))
    os.wait()
elif what == "cgroups":
    for folder, _, files in os.walk("/sys/fs/cgroup"):
        for name in files:
            put(f"{folder}/{name}", b"0")
            put(f"{folder}/{name}", b"1")
print("it goes on")
"""
WAYS = (
    *("kill all", "kill init", "reboot", "sysrq", "memory", "trace init", "mounts"),
    *("out of memory", "cgroups"),
)


def run(room: Sealmark, *args: str | Path, **more: object) -> subprocess.CompletedProcess[bytes]:
    return room.run("sandbox", "run", *args, **more)  # type: ignore[arg-type]


# --- T17 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", [STUDENT, ROOT])
def test_network_is_refused_at_once(room: Sealmark, tmp_path: Path, user: str) -> None:
    shutil.copy(NETWORK, tmp_path / "hw.py")
    done = run(
        room,
        *("--user", user, "--file", f"{tmp_path}/hw.py:/workspace/hw.py"),
        *("--", "python3", "-c", "import hw; print(hw.add(2, 3)); print(len(list(hw.attempts())))"),
    )
    assert done.stdout.splitlines()[0] == b"5", done
    assert int(done.stdout.splitlines()[1]) > 40


def test_a_refusal_is_told_from_an_answer(room: Sealmark, tmp_path: Path) -> None:
    """A control: the attempts see a service where there is one, in the machine itself."""
    shutil.copy(NETWORK, tmp_path / "hw.py")
    code = (
        "import hw, socket; s = socket.create_server(('127.0.0.1', 80));"
        "u = socket.socket(2, 2); u.bind(('127.0.0.1', 53)); print(hw.add(2, 3))"
    )
    args = ("--user", "0", "--file", f"{tmp_path}/hw.py:/workspace/hw.py", "--")
    assert b"not refused" in run(room, *args, "python3", "-c", code).stdout


def test_only_loopback_is_there(room: Sealmark) -> None:
    done = run(room, "--user", "0", "--", "sh", "-c", "ls /sys/class/net; cat /proc/net/route")
    assert done.stdout.split() and done.stdout.split()[0] == b"lo"
    assert b"eth" not in done.stdout


# --- T20 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("user", [STUDENT, ROOT])
def test_machine_ends_alone(room: Sealmark, tmp_path: Path, user: str, way: str) -> None:
    """Whatever comes of that machine, another that runs beside it does not notice."""
    (tmp_path / "crash.py").write_text(CRASH)
    beside = room.start("sandbox", "run", "--", "sh", "-c", "echo on; read line; echo $line")
    assert beside.stdout and beside.stdin
    assert beside.stdout.readline() == b"on\n"
    done = run(
        room,
        *LIMITS,
        *("--user", user, "--file", f"{tmp_path}/crash.py:/workspace/crash.py"),
        *("--", "python3", "crash.py", way),
    )
    # it went on, was killed, came to a limit, or took its machine along: never a failure of ours
    # that says nothing, never a monitor that crashed
    assert done.returncode in (0, 1, 3, 124, 137), done
    if done.returncode == 0:
        assert done.stdout == b"it goes on\n"
    if done.returncode == 3:
        assert user == ROOT, done
        assert b"the sandbox is over" in done.stderr, done
        assert b"monitor" not in done.stderr, done
    out, err = beside.communicate(b"still here\n", timeout=60)
    assert (out, beside.returncode) == (b"still here\n", 0), err


# --- T13, T15, T16, T19 ------------------------------------------------------------------------


def test_fork_bomb_of_root_is_ended(room: Sealmark) -> None:
    code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"
    args = ("--memory", "64M", "--processes", "32", "--timeout", "2s", "--user", "0")
    done = run(room, *args, "--", "python3", "-c", code)
    assert done.returncode == 124, done


@pytest.mark.parametrize("stream", ["1", "2"])
def test_flood_is_passed_on_and_not_kept(room: Sealmark, stream: str) -> None:
    """32 MB of output: the reader gets all of it, sealmark and monitor stay small."""
    size = 32 << 20
    command = f"head -c {size} /dev/zero | tr '\\0' '\\n' >&{stream}"
    process = room.start("sandbox", "run", "--", "sh", "-c", command)
    watch = Watch(process.pid)
    watch.start()
    out, err = process.communicate(timeout=120)
    watch.over.set()
    watch.join()
    assert process.returncode == 0
    assert (out if stream == "1" else err) == b"\n" * size
    assert watch.peaks["sealmark"] < 64 << 10, watch.peaks
    assert watch.peaks["sealmark-monito"] < 64 << 10, watch.peaks


def test_flood_that_nobody_reads_is_not_kept(room: Sealmark) -> None:
    """What is not taken waits in the machine; who reads late gets it, and the end, all the same."""
    process = room.start("sandbox", "run", "--timeout", "2s", "--", "yes")
    watch = Watch(process.pid)
    watch.start()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
    out, err = process.communicate(timeout=60)
    watch.over.set()
    watch.join()
    assert process.returncode == 124, err
    assert out.startswith(b"y\ny\n")
    assert watch.peaks["sealmark"] < 64 << 10, watch.peaks
    assert watch.peaks["sealmark-monito"] < 64 << 10, watch.peaks


@pytest.mark.parametrize(
    "command",
    [
        "cat /dev/zero > large",
        "truncate -s 1T sparse; while :; do echo x >> small || exit 1; done",
        "fallocate -l 1T large",
        "for i in $(seq 100000); do : > f$i || exit 1; done",
        "cp -r /usr /dev/shm",
    ],
)
@pytest.mark.parametrize("user", [STUDENT, ROOT])
def test_disk_of_the_host_is_unaffected(room: Sealmark, user: str, command: str) -> None:
    before = os.statvfs("/tmp").f_bavail * os.statvfs("/tmp").f_frsize
    low = [before]
    over = threading.Event()

    def sample() -> None:
        while not over.wait(0.1):
            low[0] = min(low[0], os.statvfs("/tmp").f_bavail * os.statvfs("/tmp").f_frsize)

    thread = threading.Thread(target=sample)
    thread.start()
    args = ("--memory", "64M", "--disk", "16M", "--timeout", "2s", "--user", user, "--cwd", "/tmp")
    done = run(room, *args, "--", "sh", "-c", command)
    over.set()
    thread.join()
    assert done.returncode in (1, 2, 124, 137), done
    # others use this disk, too; what was tried here is a multiple of this, or endless
    assert before - low[0] < 512 << 20


# --- T24 ---------------------------------------------------------------------------------------

E_ACUTE = "é".encode()
BYTES = {
    "empty": b"",
    "nul": b"\0",
    "nuls": b"a\0b\0\0",
    "not utf-8": b"\xff\xfe\x80\xc3\x28",
    "every byte": bytes(range(256)) * 300,
    "no final newline": b"one\ntwo",
    "crlf": b"one\r\ntwo\r",
    "65535": random.Random(1).randbytes(65_535),
    "65536": random.Random(2).randbytes(65_536),
    "65537": random.Random(3).randbytes(65_537),
    "é across 64 KiB": b"x" * 65_535 + E_ACUTE + b"y",
    "é across 16 KiB": b"x" * 16_383 + E_ACUTE * 40_000,
    "1 MB": random.Random(4).randbytes(1_000_000),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_come_back_exactly(room: Sealmark, name: str) -> None:
    done = run(room, "--", "sh", "-c", "tee /dev/stderr", stdin=BYTES[name])
    assert done.returncode == 0
    assert done.stdout == BYTES[name]
    assert done.stderr == BYTES[name]


def test_files_come_in_exactly(room: Sealmark, tmp_path: Path) -> None:
    args: list[str] = []
    for number, data in enumerate(BYTES.values()):
        (tmp_path / str(number)).write_bytes(data)
        args += ["--file", f"{tmp_path}/{number}:/workspace/{number}"]
    command = " ".join(["cat", *map(str, range(len(BYTES)))])
    done = run(room, *args, "--", "sh", "-c", command)
    assert done.stdout == b"".join(BYTES.values())


def test_input_that_is_not_read_does_not_hold(room: Sealmark) -> None:
    done = run(room, "--", "true", stdin=b"x" * 5_000_000)
    assert done.returncode == 0
