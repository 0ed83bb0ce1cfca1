# SPDX-License-Identifier: Apache-2.0 - the launcher: starts the examiner and candidates in a guest.
"""
Theory of operation

Runs as the guest's root, reads no byte that student code can write, and holds no secret. Standard
input begins with eight digits, the size of the launcher's part of the configuration (key=value
lines); what follows is the examiner's (with the nonce of the report) and is read by it alone.

  launcher (root)  --fork-->  examiner (its own uid): fd 0, fd 3, the control socket
                   --fork-->  candidate (the student's uid): a socket to the examiner, pipes

The examiner asks over the control socket, one datagram each: "spawn" and "end N". The answer to
spawn carries descriptors: of the candidate (socket, stdout, stderr, pidfd) and of its cgroup's
files. When the examiner ends, everything ends.
"""

import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
if HERE not in sys.path:
    sys.path.append(HERE)  # last: nothing else is looked for here first
sys.dont_write_bytecode = True

import _signal as signal  # noqa: E402 - the module around it loads enum
import _socket  # noqa: E402
import gc  # noqa: E402
import resource  # noqa: E402
import select  # noqa: E402
import stat  # noqa: E402

from sealmark_examiner import candidate, codec, peer, standin  # noqa: E402, F401

CGROUP_FILES = ("cpu.stat", "memory.events", "pids.events", "memory.peak", "pids.current")
STACK_BYTES = 64 << 20
FILES_MOST = 1024
KILL_WAIT_S = 5.0
COPY_MOST = 8 << 20
FOLLOW_NOT = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
NEW_MOUNTS = 0x20000  # CLONE_NEWNS
ALONE = 0x4000 | 0x40000  # MS_REC, MS_PRIVATE
BIND = 0x1000
NO_LINKS = 0x20 | 0x1000 | 0x100 | 0x2 | 0x4  # MS_REMOUNT, BIND, NOSYMFOLLOW, NOSUID, NODEV


class Failure(Exception):
    """Something of ours does not work."""


def read_config() -> dict[str, str]:
    data = b""
    wanted = 8
    while len(data) < wanted:
        piece = os.read(0, wanted - len(data))
        if not piece:
            raise Failure("the configuration is cut")
        data += piece
        if len(data) == 8 and wanted == 8:
            wanted += int(data)
    lines = data[8:].decode().splitlines()
    return dict(line.split("=", 1) for line in lines if line)


def write_file(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def read_file(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 4096).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def find_cgroup(mount: str) -> str | None:
    """Our own cgroup v2 with the controllers delegated to children; None without one."""
    if not mount or not os.path.exists(f"{mount}/cgroup.controllers"):
        return None
    own = [line for line in read_file("/proc/self/cgroup").splitlines() if line.startswith("0::")]
    if not own:
        return None
    base = mount + own[0][3:].rstrip("/")
    have = read_file(f"{base}/cgroup.controllers").split()
    if "memory" not in have or "pids" not in have:
        return None
    # a cgroup that has children with controllers may hold no process itself
    os.mkdir(f"{base}/examiner")
    write_file(f"{base}/examiner/cgroup.procs", "0")
    wanted = [name for name in ("cpu", "memory", "pids") if name in have]
    write_file(f"{base}/cgroup.subtree_control", " ".join(f"+{name}" for name in wanted))
    return base


def no_new_privs() -> None:
    if "NoNewPrivs:\t1" in read_file("/proc/self/status"):
        return
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(38, 1, 0, 0, 0) != 0:
        raise Failure("no_new_privs is refused")


def become(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def limit(kind: int, most: int) -> None:
    try:
        resource.setrlimit(kind, (most, most))
    except (OSError, ValueError):  # not allowed to raise it
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (min(most, hard), hard))


class Candidate:
    """One process of the student's with everything it starts."""

    def __init__(self, pid: int, cgroup: str | None) -> None:
        self.pid = pid
        self.cgroup = cgroup


class Launcher:
    def __init__(self, config: dict[str, str]) -> None:
        self.config = config
        self.uid = int(config["candidate_uid"])
        self.gid = int(config["candidate_gid"])
        self.memory = int(config.get("memory_bytes", "0"))
        self.processes = int(config.get("processes", "0"))
        self.workspace = config["workspace"]
        self.cgroup = find_cgroup(config.get("cgroup", ""))
        self.original = self.files()  # the submission, before any of it runs
        self.examiner = 0  # its pid
        self.next = 1
        self.candidates: dict[int, Candidate] = {}

    # -- start -------------------------------------------------------------------------------

    def make_cgroup(self, number: int) -> str | None:
        if self.cgroup is None:
            return None
        path = f"{self.cgroup}/candidate{number}"
        os.mkdir(path)
        if self.memory:
            write_file(f"{path}/memory.max", str(self.memory))
            write_file(f"{path}/memory.oom.group", "1")
            if os.path.exists(f"{path}/memory.swap.max"):
                write_file(f"{path}/memory.swap.max", "0")
        if self.processes:
            write_file(f"{path}/pids.max", str(self.processes))
        return path

    def spawn(self) -> tuple[bytes, list[int]]:
        """Start a candidate: what to answer, and the descriptors that go with it."""
        number = self.next
        self.next += 1
        cgroup = self.make_cgroup(number)
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        keep = (theirs.fileno(), out_write, err_write)
        pid = os.fork()
        if pid == 0:
            self.child(cgroup, *keep)
        for fd in (out_write, err_write):
            os.close(fd)
        theirs.close()
        self.candidates[number] = Candidate(pid, cgroup)
        fds = {"sock": ours.detach(), "out": out_read, "err": err_read, "pid": os.pidfd_open(pid)}
        if cgroup is not None:
            for name in CGROUP_FILES:
                try:
                    fds[name] = os.open(f"{cgroup}/{name}", os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    continue
        else:
            fds["stat"] = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        return f"ok {number} {' '.join(fds)}".encode(), list(fds.values())

    def child(self, cgroup: str | None, sock: int, out: int, err: int) -> None:
        """Becomes the candidate; never returns."""
        status = 1
        try:
            if cgroup is not None:
                write_file(f"{cgroup}/cgroup.procs", "0")
            os.setsid()
            null = os.open("/dev/null", os.O_RDONLY)
            os.dup2(null, 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            os.dup2(sock, 3, inheritable=False)
            os.closerange(4, FILES_MOST)
            self.limits(cgroup)
            no_new_privs()
            become(self.uid, self.gid)
            os.chdir(self.workspace)
            os.umask(0o022)
            for each in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(each, signal.SIG_IGN)
            os.environ.clear()
            os.environ.update(
                HOME=self.workspace,
                LANG="C.UTF-8",
                PATH="/usr/local/bin:/usr/bin:/bin",
                USER="student",
            )
            candidate.run(3, self.workspace)
            status = 0
        except BaseException as error:
            os.write(2, f"candidate: {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(status)

    def limits(self, cgroup: str | None) -> None:
        limit(resource.RLIMIT_CORE, 0)
        limit(resource.RLIMIT_NOFILE, FILES_MOST)
        limit(resource.RLIMIT_STACK, STACK_BYTES)
        if int(self.config.get("file_bytes", "0")):
            limit(resource.RLIMIT_FSIZE, int(self.config["file_bytes"]))
        if cgroup is None:  # what stands in for the cgroup's limits
            if self.memory:
                limit(resource.RLIMIT_AS, self.memory)
            if self.processes:
                limit(resource.RLIMIT_NPROC, self.processes)

    # -- end ---------------------------------------------------------------------------------

    def end(self, number: int) -> bytes:
        """Kill the whole tree, wait for its end; how it ended and what it had used."""
        one = self.candidates.pop(number)
        if one.cgroup is not None:
            write_file(f"{one.cgroup}/cgroup.kill", "1")
        else:
            self.kill_by_uid()
        _, status = os.waitpid(one.pid, 0)
        answer = [f"status={os.waitstatus_to_exitcode(status)}"]
        if one.cgroup is not None:
            for name in CGROUP_FILES[:4]:
                words = read_file(f"{one.cgroup}/{name}").split()
                if len(words) == 1:
                    answer.append(f"{name}={words[0]}")
                else:
                    pairs = zip(words[::2], words[1::2], strict=False)
                    answer += [f"{name}.{key}={value}" for key, value in pairs]
            self.remove_cgroup(one.cgroup)
        return " ".join(answer).encode()

    def kill_by_uid(self) -> None:
        """Without a cgroup: a process of that uid kills all others of it, until none is left."""
        pid = os.fork()
        if pid == 0:
            try:
                become(self.uid, self.gid)
                for _ in range(100):
                    os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
            finally:
                os._exit(0)
        os.waitpid(pid, 0)

    def copy(self, name: bytes) -> bytes:
        """Give the student's processes a data file of the tests; what they have stays."""
        if b"/" in name or name in (b"", b".", b".."):
            raise Failure("no name of a data file")
        try:
            source = os.open(os.fsencode(self.config["tests"]) + b"/" + name, FOLLOW_NOT)
        except OSError:
            return b"no"
        try:
            if os.fstat(source).st_size > COPY_MOST:
                return b"no"
            data = os.read(source, COPY_MOST)
        finally:
            os.close(source)
        try:
            # new, or not at all: a link that student code put there is not followed
            target = os.open(os.fsencode(self.workspace) + b"/" + name, NEW_FILE, 0o644)
        except OSError:
            return b"no"
        try:
            os.fchown(target, self.uid, self.gid)
            while data:
                data = data[os.write(target, data) :]
        except OSError:
            return b"no"
        finally:
            os.close(target)
        self.original.add(f"{self.workspace}/{os.fsdecode(name)}")
        return b"ok"

    def close_links(self) -> bytes:
        """From now on the examiner follows no symbolic link where student code can make one: what
        a test reads there would be a file of the tests' own, with the expected values."""
        if self.config.get("private_mounts") != "1":
            return b"no"
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                without_links(self.examiner, (self.workspace, *SCRATCH))
                status = 0
            except BaseException as error:
                os.write(2, f"links: {type(error).__name__}: {error}\n".encode())
            finally:
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        if status != 0:
            raise Failure("links cannot be closed")
        return b"ok"

    def files(self) -> set[str]:
        return {
            os.path.join(path, name)
            for path, folders, files in os.walk(self.workspace)
            for name in (*folders, *files)
        }

    def clean(self) -> bytes:
        """After a full disk: remove what the student's processes made, so that the next test has
        room. None of them runs now, so nothing changes under our hands."""
        if self.candidates:
            raise Failure("a candidate is running")
        for folder in (self.workspace, *SCRATCH):
            for path, folders, files in os.walk(folder, topdown=False):
                for name in (*files, *folders):
                    self.remove(os.path.join(path, name))
        return b"ok"

    def remove(self, path: str) -> None:
        try:
            info = os.lstat(path)
            if info.st_uid != self.uid or path in self.original:
                return
            if stat.S_ISDIR(info.st_mode):
                os.rmdir(path)
            else:
                os.unlink(path)
        except OSError:
            return  # names too long, folders not empty: what fails shows itself in the next test

    def remove_cgroup(self, path: str) -> None:
        """Its processes die in their own time; its events file says when they have."""
        deadline = time.monotonic() + KILL_WAIT_S
        fd = os.open(f"{path}/cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        try:
            poll = select.poll()
            poll.register(fd, select.POLLPRI)
            while b"populated 1" in os.pread(fd, 4096, 0):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Failure("killed processes do not die")
                poll.poll(left * 1000)
        finally:
            os.close(fd)
        os.rmdir(path)

    # -- serve -------------------------------------------------------------------------------

    def serve(self, control: _socket.socket) -> None:
        while True:
            request = control.recv(512).split(b" ", 1)
            if not request[0]:
                return
            fds: list[int] = []
            try:
                if request[0] == b"spawn":
                    answer, fds = self.spawn()
                elif request[0] == b"copy":
                    answer = self.copy(request[1])
                elif request[0] == b"clean":
                    answer = self.clean()
                elif request[0] == b"links":
                    answer = self.close_links()
                else:
                    answer = self.end(int(request[1]))
            except (OSError, KeyError, ValueError, Failure) as error:
                answer = f"failed {type(error).__name__}: {error}".encode()
            data = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
            rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, data)] if fds else []
            try:
                control.sendmsg([answer], rights)
            except BrokenPipeError:
                return
            finally:
                for fd in fds:
                    os.close(fd)


def own_mounts() -> None:
    if hasattr(os, "unshare"):
        os.unshare(NEW_MOUNTS)
        return
    import ctypes

    if ctypes.CDLL(None, use_errno=True).unshare(NEW_MOUNTS) != 0:
        raise Failure("no mounts of its own for the examiner")


def without_links(pid: int, folders: tuple[str, ...]) -> None:
    """Mount the folders anew where that process sees them, so that it follows no link in them."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *args: object) -> None:
        if getattr(libc, name)(*args) != 0:
            number = ctypes.get_errno()
            raise Failure(f"{name}: {os.strerror(number)}")

    fd = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    call("setns", fd, NEW_MOUNTS)
    call("mount", None, b"/", None, ctypes.c_ulong(ALONE), None)
    for folder in folders:
        if os.path.isdir(folder):
            path = os.fsencode(folder)
            call("mount", path, path, None, ctypes.c_ulong(BIND), None)
            call("mount", None, path, None, ctypes.c_ulong(NO_LINKS), None)


def examine(config: dict[str, str], control: _socket.socket) -> None:
    """Becomes the examiner; never returns."""
    status = 70
    try:
        if config.get("private_mounts") == "1":
            own_mounts()
        no_new_privs()
        become(int(config["examiner_uid"]), int(config["examiner_gid"]))
        limit(resource.RLIMIT_CORE, 0)
        from sealmark_examiner import examiner

        status = examiner.main(control, 0, 3)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(status)


def main() -> int:
    config = read_config()
    gc.freeze()  # what is shared with the children is not written by their collections
    launcher = Launcher(config)
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        examine(config, theirs)
    launcher.examiner = pid
    theirs.close()
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(null, 3)
    os.close(null)
    try:
        launcher.serve(ours)
    finally:
        for number in list(launcher.candidates):
            launcher.end(number)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


def start() -> None:
    try:
        sys.exit(main())
    except (Failure, OSError, ValueError, KeyError) as error:
        print(f"launcher: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(70)


if __name__ == "__main__":
    start()
