# SPDX-License-Identifier: Apache-2.0
"""A Debian with systemd and cgroup v2 as a machine of QEMU, and a way to run commands in it.

Theory of operation

Three disks: the root (made once by mmdebstrap, kept in the cache, used through an overlay that each
run makes anew), Sealmark's kernel and image as an ext4 of the host's $SEALMARK_HOME, and a tar with
what is tried (the package, the examples). There is no network. Commands go over a virtio port to
guest_shell.py, a service that starts at boot; the machine may reboot, the port stays.

QEMU emulates, as not every host has a KVM that works; that is ten times slower and more, and all
deadlines here are made for it.
"""

import base64
import hashlib
import json
import os
import shutil
import socket
import subprocess
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parent.parent

# a Debian that boots, with what an ordinary login session of systemd needs
PACKAGES = (
    "linux-image-cloud-amd64 systemd-sysv dbus dbus-user-session libpam-systemd udev kmod"
    " apparmor procps iproute2 curl"
).split()
SUITE = "bookworm"
USER = "student"

UNIT = """[Unit]
Description=commands from the host
[Service]
ExecStart=/usr/bin/python3 /opt/guest_shell.py
Restart=always
RestartSec=1
Delegate=no
KillMode=process
[Install]
WantedBy=multi-user.target
"""


class Failure(Exception):
    """The machine did not do what this needs; the text says what."""


@dataclass
class Done:
    """How a command in the machine ended."""

    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def run(*argv: str | Path, **kwargs: object) -> None:
    subprocess.run([str(a) for a in argv], check=True, **kwargs)  # type: ignore[call-overload]


def depends_of(deb: Path) -> list[str]:
    """The first choice of each thing that the package depends on."""
    text = subprocess.run(
        ["dpkg-deb", "-f", deb, "Depends"], check=True, capture_output=True, text=True
    ).stdout
    return sorted({one.split("|")[0].split("(")[0].strip() for one in text.split(",")})


def root_disk(cache: Path, deb: Path) -> Path:
    """The folder with root.ext4, vmlinuz and initrd.img, made if it is not in the cache."""
    packages = sorted(set(PACKAGES + depends_of(deb)))
    shell = (HERE / "guest_shell.py").read_bytes()
    key = hashlib.sha256("\n".join([SUITE, UNIT, *packages]).encode() + shell).hexdigest()[:16]
    folder = cache / f"root-{key}"
    if folder.exists():
        return folder
    work = cache / "root.new"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    root = work / "root"
    mirror = os.environ.get("SEALMARK_DEBIAN_MIRROR")
    print(f"making a Debian {SUITE} in {folder} (some minutes)", flush=True)
    with (work / "log").open("wb") as log:
        run(
            *("mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}"),
            *(SUITE, root, *([mirror] if mirror else [])),
            stdout=log,
            stderr=log,
        )
        (root / "opt/guest_shell.py").write_bytes(shell)
        (root / "etc/systemd/system/guest-shell.service").write_text(UNIT)
        (root / "etc/hostname").write_text("distro\n")
        (root / "etc/resolv.conf").write_text("")
        (root / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 1\n")
        for command in ("systemctl enable guest-shell", f"useradd -m -s /bin/bash {USER}"):
            run("chroot", root, "sh", "-c", command, stdout=log, stderr=log)
        for name in ("vmlinuz", "initrd.img"):
            newest = max((root / "boot").glob(f"{name}-*"))
            shutil.copy(newest, work / name)
        run("mkfs.ext4", "-q", "-F", "-d", root, work / "root.ext4", "12G", stdout=log, stderr=log)
    shutil.rmtree(root)
    work.rename(folder)
    return folder


def home_disk(cache: Path, home: Path) -> Path:
    """The guest kernel and the default image of `home` as a file system."""
    kernel = (home / "kernels/uml").resolve(strict=True)
    image = (home / "images/default/latest").resolve(strict=True)
    manifests = [(one / "manifest.json").read_bytes() for one in (kernel, image)]
    key = hashlib.sha256(b"".join(manifests)).hexdigest()[:16]
    disk = cache / f"home-{key}.ext4"
    if disk.exists():
        return disk
    work = cache / "home.new"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(kernel, work / "kernels" / kernel.name)
    (work / "kernels/uml").symlink_to(kernel.name)
    shutil.copytree(image, work / "images/default" / image.name)
    (work / "images/default/latest").symlink_to(image.name)
    size = sum(f.stat().st_size for f in work.rglob("*") if f.is_file()) * 11 // 10 + (64 << 20)
    new = disk.with_suffix(".new")
    run("mkfs.ext4", "-q", "-F", "-m", "0", "-d", work, new, f"{size >> 10}k")
    shutil.rmtree(work)
    new.rename(disk)
    return disk


def payload_disk(work: Path, deb: Path) -> Path:
    """What is tried, as a tar that is the disk."""
    path = work / "payload.tar"
    with tarfile.open(path, "w") as tar:
        tar.add(deb, "sealmark.deb")
        tar.add(TREE / "examples", "examples")
    return path


class Machine:
    """One machine of QEMU; a context manager that leaves nothing running."""

    def __init__(self, cache: Path, work: Path, deb: Path, home: Path, accel: str) -> None:
        self.work = work
        root = root_disk(cache, deb)
        disk = work / "root.qcow2"
        run(
            *("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw"),
            *("-b", root / "root.ext4", disk),
        )
        drives = [
            f"file={disk},format=qcow2,cache=unsafe",
            f"file={home_disk(cache, home)},format=raw,readonly=on",
            f"file={payload_disk(work, deb)},format=raw,readonly=on",
        ]
        self.argv = ["qemu-system-x86_64", "-M", "q35", "-accel", accel]
        # little state to save at each switch, and (mitigations=off) no other page tables in system
        # calls: emulated, that makes User-Mode Linux five times faster
        self.argv += ["-cpu", "Nehalem" if accel == "tcg" else "host", "-m", "4096", "-smp", "2"]
        self.argv += ["-display", "none", "-nic", "none"]
        self.argv += ["-nodefaults", "-no-user-config", "-serial", f"file:{work}/console"]
        for drive in drives:
            self.argv += ["-drive", f"if=virtio,{drive}"]
        self.argv += ["-kernel", str(root / "vmlinuz"), "-initrd", str(root / "initrd.img")]
        self.argv += ["-append", "root=/dev/vda rw console=ttyS0 panic=-1 mitigations=off"]
        self.argv += ["-device", "virtio-serial", "-chardev"]
        self.argv += [f"socket,id=shell,path={work}/shell,server=on,wait=off", "-device"]
        self.argv += ["virtserialport,chardev=shell,name=sealmark.shell"]
        self.qemu: subprocess.Popen[bytes] | None = None
        self.shell: socket.socket | None = None
        self.line = b""

    def __enter__(self) -> "Machine":
        self.qemu = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not (self.work / "shell").exists():
            if self.qemu.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"qemu did not start: status {self.qemu.poll()}")
            time.sleep(0.05)
        self.shell = socket.socket(socket.AF_UNIX)
        self.shell.connect(str(self.work / "shell"))
        self.wait_for_boot()
        return self

    def __exit__(self, *_: object) -> None:
        if self.shell:
            self.shell.close()
        if self.qemu:
            self.qemu.kill()
            self.qemu.wait()

    def read(self, timeout: float, what: str) -> dict:
        assert self.shell
        deadline = time.monotonic() + timeout
        while b"\n" not in self.line:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Failure(f"no answer from the machine within {timeout:.0f} s: {what}")
            self.shell.settimeout(left)
            try:
                data = self.shell.recv(1 << 16)
            except TimeoutError:
                continue
            if not data:
                raise Failure(f"qemu ended while waiting for: {what}")
            self.line += data
        line, self.line = self.line.split(b"\n", 1)
        return json.loads(line)

    def wait_for_boot(self) -> None:
        while "hello" not in self.read(900, "the greeting at boot"):
            pass

    def run(self, command: str, user: str = "", timeout: float = 600, stdin: bytes = b"") -> Done:
        """A command of the shell as root; or in a login session of `user`."""
        argv = ["bash", "-c", command]
        if user:
            argv = ["su", "-", user, "-c", command]
        request = {
            "argv": argv,
            "stdin": base64.b64encode(stdin).decode(),
            "timeout": timeout,
        }
        assert self.shell
        self.shell.settimeout(60)
        self.shell.sendall(json.dumps(request).encode() + b"\n")
        answer = self.read(timeout + 60, command)
        out, err = (base64.b64decode(answer[k]).decode(errors="replace") for k in ("out", "err"))
        return Done(answer["status"], out, err)

    def must(self, command: str, user: str = "", timeout: float = 600, stdin: bytes = b"") -> str:
        """As run(), for what has to work: its output."""
        done = self.run(command, user, timeout, stdin)
        if done.status:
            said = done.text[-1500:].strip()
            raise Failure(f"{command[:60]!r} ended with {done.status}: {said}")
        return done.out

    def until(self, command: str, what: str, timeout: float = 120) -> None:
        """Wait until the command succeeds."""
        deadline = time.monotonic() + timeout
        while self.run(command).status:
            if time.monotonic() > deadline:
                text = self.run(command).text[-1500:]
                raise Failure(f"{what}: not within {timeout:.0f} s: {text}")
            time.sleep(0.3)

    def reboot(self) -> None:
        self.run("systemd-run --quiet --on-active=1 systemctl reboot")
        self.wait_for_boot()
