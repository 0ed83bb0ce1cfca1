# SPDX-License-Identifier: Apache-2.0
"""What is checked on a Debian with systemd and cgroup v2, in this order, in one machine.

A check raises Failure with what was seen; the ones after it still run. All deadlines are generous:
the machine is emulated, and what is waited for is a condition, never a time.
"""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from machine import USER, Failure, Machine

HOME = "/var/lib/sealmark"
TOP = "/sys/fs/cgroup/sealmark"
UNIT = "/sys/fs/cgroup/system.slice/sealmark.service"
FULL = "uml userns seccomp cgroup-v2 own-uid"

# forty processes at once, or as many as there may be; none stays
FORKS = """
import os, signal
children = []
try:
    for _ in range(40):
        pid = os.fork()
        if not pid:
            signal.pause()
        children.append(pid)
except OSError as e:
    print(e)
for pid in children:
    os.kill(pid, 9)
"""


@dataclass
class Check:
    name: str
    run: Callable[["Host"], str | None]


CHECKS: list[Check] = []


def check(name: str) -> Callable[[Callable[["Host"], str | None]], None]:
    """Adds a check; what it returns is said beside its name."""

    def add(function: Callable[["Host"], str | None]) -> None:
        CHECKS.append(Check(name, function))

    return add


def want(condition: object, seen: object) -> None:
    if not condition:
        raise Failure(str(seen).strip())


class Host:
    """The machine as a host of Sealmark: its server, asked by HTTP from inside."""

    def __init__(self, machine: Machine) -> None:
        self.m = machine
        self.key = ""

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        curl = ["curl", "-sS", "-m", "300", "-w", "\n%{http_code}", "-X", method]
        curl += ["-H", f"Authorization: Bearer {self.key}", "-H", "Prefer: wait=120"]
        if body is not None:
            curl += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        out = self.m.must(shlex.join([*curl, f"http://127.0.0.1:8080{path}"]))
        text, status = out.rsplit("\n", 1)
        return int(status), json.loads(text) if text else None

    def create(self, **fields: Any) -> str:
        body = {"memoryMiB": 256, "timeoutSeconds": 3600, "idlePauseSeconds": 3600, **fields}
        status, made = self.ask("POST", "/v1/sandboxes", body)
        want(status == 201 and made["state"] == "running", made)
        want(made["isolation"] == FULL, f"isolation: {made['isolation']}")
        return made["id"]

    def exec(self, sandbox: str, command: str) -> Any:
        status, result = self.ask(
            "POST", f"/v1/sandboxes/{sandbox}:exec", {"command": command, "timeoutMs": 300_000}
        )
        want(status == 200, result)
        return result

    def record(self, sandbox: str) -> Any:
        return self.ask("GET", f"/v1/sandboxes/{sandbox}")[1]

    def read(self, machine: str, name: str) -> str:
        return self.m.must(f"cat {TOP}/{machine}/{name}").strip()

    def gone(self, machine: str) -> None:
        """Nothing of the machine is left: no process, cgroup, folder."""
        self.m.until(
            f"! ls -d {TOP}/{machine} {HOME}/sandboxes/{machine} 2>/dev/null",
            f"cgroup and folder of {machine} go away",
        )

    def nothing_left(self) -> None:
        """No machine of anybody's is left, nor a process of one."""
        for what in ("find /sys/fs/cgroup -path '*/sealmark/*' -type d", f"ls -A {HOME}/sandboxes"):
            self.m.until(f'test -z "$({what})"', f"nothing comes of: {what}")
        self.m.until(
            "! pgrep -a 'sealmark-monito|sealmark-egress|sealmark-init|^linux$|uml-userspace'",
            "no process of a machine is left",
        )

    def keeper(self, machine: str) -> str:
        """The parent of the first process in the machine's cgroup."""
        first = self.m.must(f"sort -n {TOP}/{machine}/cgroup.procs | head -n 1").strip()
        return self.m.must(f"ps -o ppid= -p {first}").strip()

    def server(self) -> str:
        return self.m.must("systemctl show -P MainPID sealmark").strip()

    def stop_all(self) -> None:
        """What a failed check has left is not the next one's."""
        self.m.must("systemctl start sealmark")
        status, seen = self.ask("GET", "/v1/sandboxes")
        for one in seen["data"] if status == 200 else []:
            if one["state"] != "stopped":
                self.ask("POST", f"/v1/sandboxes/{one['id']}:stop")

    def wait_for_server(self) -> None:
        self.m.until(
            "systemctl is-active --quiet sealmark && "
            "curl -sS -o /dev/null http://127.0.0.1:8080/v1/openapi.json",
            "the server answers",
        )


# --- the package and the unit ---


@check("dpkg -i: installs, enables and starts nothing")
def install(h: Host) -> None:
    h.m.must("mkdir -p /opt/payload && tar xf /dev/vdc -C /opt/payload", timeout=300)
    h.m.must("dpkg -i /opt/payload/sealmark.deb", timeout=900)
    want(h.m.run("systemctl is-enabled sealmark").out.strip() == "disabled", "it is enabled")
    want(h.m.run("systemctl is-active sealmark").out.strip() == "inactive", "it runs")


@check("systemctl start before `sealmark setup`: fails, says the cure, is given up")
def start_too_early(h: Host) -> None:
    done = h.m.run("systemctl start sealmark")
    want(done.status != 0, "it started without a kernel")
    h.m.until("systemctl is-failed --quiet sealmark", "systemd gives it up", 300)
    log = h.m.must("journalctl -u sealmark --no-pager")
    want("run: sealmark setup" in log, log[-1000:])
    h.m.must("systemctl reset-failed sealmark")


@check("doctor as root: cgroup-v2 and user ids of its own")
def doctor_root(h: Host) -> str:
    h.m.must("mkdir -p /mnt/home && mount -o ro /dev/vdb /mnt/home")
    h.m.must(f"cp -a /mnt/home/kernels /mnt/home/images {HOME}/", timeout=1800)
    h.m.must(f"printf 'spares:\n  most: 0\n' >{HOME}/sealmark.yaml")
    return isolation_found(h, "root", ["user namespaces", "seccomp", "own user ids", "cgroup-v2"])


@check("systemctl start: returns when it answers; the owner's link is in the journal")
def start(h: Host) -> None:
    h.m.must("systemctl start sealmark && curl -sS http://127.0.0.1:8080/v1/openapi.json")
    log = h.m.must("journalctl -u sealmark --no-pager")
    want("http://127.0.0.1:8080/setup?token=" in log, log[-1000:])
    h.key = h.m.must("sealmark keys create distro").strip()


# --- machines of the service ---


@check("a sandbox over HTTP through the unit: created, runs a command")
def sandbox(h: Host) -> str:
    one = h.create()
    done = h.exec(one, "id -u; python3 -c 'print(6 * 7)'; uname -r")
    want(done["exitCode"] == 0 and done["stdout"].startswith("1000\n42\n"), done)
    want(h.m.must("uname -r") not in done["stdout"], "it shows the kernel of the host")
    stop_and_see(h, one)
    return FULL


@check("limits are the cgroup's: memory, swap, processes; CPU and peak are measured there")
def limits(h: Host) -> str:
    one = h.create(memoryMiB=256)
    most = int(h.read(one, "memory.max"))
    want(256 << 20 <= most < 1 << 30, f"memory.max is {most}")
    want(0 < int(h.read(one, "pids.max")) <= 4096, f"pids.max is {h.read(one, 'pids.max')}")
    want(h.read(one, "memory.swap.max") == "0", "it may swap")
    before = cpu_of(h, one)
    peak = int(h.read(one, "memory.peak"))
    done = h.exec(one, "python3 -c 'b = bytearray(100 << 20)\nfor i in range(300000): pass'")
    want(done["exitCode"] == 0, done)
    grown = int(h.read(one, "memory.peak")) - peak
    want(grown >= 90 << 20, f"the peak grew by {grown} bytes when 100 MiB were written")
    used = cpu_of(h, one) - before
    want(used >= 100_000, f"its CPU time grew by {used} us")
    stop_and_see(h, one)
    usage = h.ask("GET", "/v1/usage")[1]
    return f"peak +{grown >> 20} MiB, CPU +{used / 1e6:.1f} s" if usage else None


@check("more processes and more memory than allowed: refused; the sandbox goes on")
def hogs(h: Host) -> None:
    one = h.create(memoryMiB=256)
    # each process of the guest is one of the host's
    room = int(h.read(one, "pids.current")) + 20
    h.m.must(f"echo {room} >{TOP}/{one}/pids.max")
    h.exec(one, f"python3 -c {shlex.quote(FORKS)}")
    refused = dict(line.split() for line in h.read(one, "pids.events").splitlines())
    want(int(refused["max"]) > 0, f"40 processes, room for 20, none refused: {refused}")
    done = h.exec(one, "python3 -c 'b = bytearray(1 << 30)'")
    want(done["exitCode"] != 0, done)
    want(h.exec(one, "echo still here")["stdout"] == "still here\n", "it is gone")
    want(int(h.read(one, "memory.peak")) <= int(h.read(one, "memory.max")), "more than allowed")
    stop_and_see(h, one)


@check("pause and wake through the unit: its memory is kept")
def pause(h: Host) -> None:
    one = h.create()
    h.exec(one, "echo kept > /tmp/word")
    status, seen = h.ask("POST", f"/v1/sandboxes/{one}:pause")
    want(status in (200, 202), seen)
    seen = h.ask("GET", f"/v1/sandboxes/{one}?waitFor=paused&timeoutSeconds=60")[1]
    want(seen["state"] == "paused", seen)
    status, seen = h.ask("POST", f"/v1/sandboxes/{one}:wake")
    want(status in (200, 202), seen)
    want(h.exec(one, "cat /tmp/word")["stdout"] == "kept\n", "it has lost its memory")
    stop_and_see(h, one)


@check("the network through the unit: what is outside is reached, unless internet is false")
def network(h: Host) -> None:
    # an outside of one server, at an address that no rule refuses
    h.m.must(
        "ip netns add outside && ip link add inner type veth peer name outer netns outside &&"
        " ip addr add 203.0.113.1/24 dev inner && ip link set inner up &&"
        " ip netns exec outside sh -c 'ip addr add 203.0.113.10/24 dev outer;"
        " ip link set outer up; ip link set lo up' &&"
        " mkdir -p /run/outside && echo hello from outside >/run/outside/index.html &&"
        " systemd-run --quiet -p WorkingDirectory=/run/outside"
        " ip netns exec outside python3 -m http.server 80"
    )
    h.m.until("curl -sS http://203.0.113.10/", "the server outside answers")
    curl = "curl -sS -m 60 http://203.0.113.10/"
    one = h.create()
    done = h.exec(one, curl)
    want(done["stdout"] == "hello from outside\n", done)
    stop_and_see(h, one)
    one = h.create(network={"internet": False})
    done = h.exec(one, curl)
    want(done["exitCode"] != 0 and "hello" not in done["stdout"], done)
    stop_and_see(h, one)


@check("systemctl stop, start, restart: the sandbox lives on")
def restart(h: Host) -> None:
    one = h.create()
    h.exec(one, "echo kept > /tmp/word")
    h.m.must("systemctl stop sealmark")
    want(h.m.run(f"grep -q . {TOP}/{one}/cgroup.procs").status == 0, "it died with the server")
    h.m.must("systemctl start sealmark")
    want(h.exec(one, "cat /tmp/word")["stdout"] == "kept\n", "it is another after stop and start")
    h.m.must("systemctl restart sealmark")
    want(h.exec(one, "cat /tmp/word")["stdout"] == "kept\n", "it is another after a restart")
    stop_and_see(h, one)


@check("kill -9 of the server: systemd starts it again, the sandbox lives on")
def kill_server(h: Host) -> None:
    one = h.create()
    h.exec(one, "echo kept > /tmp/word")
    was = h.server()
    h.m.must(f"kill -9 {was}")
    h.m.until(f'test "$(systemctl show -P MainPID sealmark)" != {was}', "systemd sees its end")
    h.wait_for_server()
    want(h.exec(one, "cat /tmp/word")["stdout"] == "kept\n", "it is another")
    stop_and_see(h, one)


@check("kill -9 of monitor, keeper, machine, and cgroup.kill: stopped, nothing stays")
def kill_parts(h: Host) -> str:
    reasons = []
    for part, command in (
        ("monitor", "kill -9 $(pgrep -P {keeper} -x sealmark-monito)"),
        ("keeper", "kill -9 {keeper}"),
        (
            "machine",
            f"kill -9 $(for p in $(cat {TOP}/{{one}}/cgroup.procs); do"
            " grep -lx linux /proc/$p/comm; done | cut -d/ -f3)",
        ),
        ("cgroup", f"echo 1 >{TOP}/{{one}}/cgroup.kill"),
    ):
        one = h.create()
        h.m.must(command.format(keeper=h.keeper(one), one=one))
        status, seen = h.ask("GET", f"/v1/sandboxes/{one}?waitFor=stopped&timeoutSeconds=60")
        want(status == 200 and seen["state"] == "stopped", f"after the {part}: {seen}")
        h.gone(one)
        reasons.append(f"{part}: {seen['stopReason']}")
    h.nothing_left()
    return ", ".join(reasons)


@check("reboot: the server is back, the sandbox is stopped with a reason, nothing stays")
def reboot(h: Host) -> str:
    h.m.must("systemctl enable sealmark")
    one = h.create()
    h.m.reboot()
    h.wait_for_server()
    seen = h.record(one)
    want(seen["state"] == "stopped", seen)
    h.nothing_left()
    stop_and_see(h, h.create())
    return f"stopReason {seen['stopReason']}"


@check("dpkg -i again: the new server takes over, the sandbox lives on")
def upgrade(h: Host) -> None:
    one = h.create()
    h.exec(one, "echo kept > /tmp/word")
    was = h.server()
    h.m.must("dpkg -i /opt/payload/sealmark.deb", timeout=900)
    want(h.server() != was, "the old server runs on")
    h.wait_for_server()
    want(h.exec(one, "cat /tmp/word")["stdout"] == "kept\n", "it is another")
    stop_and_see(h, one)


# --- grading ---

# some of the example class, whose own limits are not made for an emulated machine
CLASS = {"ada": "20", "ben-partly": "16", "hugo-memory": "16", "ida-exit": "0"}


@check("sealmark grade as root: the right gradebook")
def grade_root(h: Host) -> str:
    make_class(h, "/root/class")
    return grade(h, "/root/class", "", "", FULL)


# --- an ordinary user ---


@check("a login session: no cgroup is delegated, and doctor says the cure")
def user_session(h: Host) -> str:
    data = f"/home/{USER}/.local/share/sealmark"
    h.m.must(f"install -d -o {USER} -g {USER} /home/{USER}/.local /home/{USER}/.local/share {data}")
    h.m.must(f"ln -sf {HOME}/kernels {HOME}/images {data}/")
    place = h.m.must("cat /proc/self/cgroup", USER).strip()
    want("/session-" in place, place)
    found = isolation_found(h, USER, ["user namespaces", "seccomp"])
    advice = h.m.must("sealmark doctor", USER)
    want("systemd-run --user --scope -p Delegate=yes" in advice, advice)
    want("cgroup-v2" not in found, found)
    out = h.m.must("sealmark sandbox run -- id -u", USER)
    want(out == "1000\n", out)
    return found


@check("a scope of `systemd --user`: cgroup v2 bounds and measures the machine")
def user_scope(h: Host) -> str:
    scope = "systemd-run --quiet --user --scope -p Delegate=yes"
    found = isolation_found(h, USER, ["user namespaces", "seccomp", "cgroup-v2"], scope)
    slices = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service"
    command = (
        f"{scope} sealmark sandbox run -- sleep 1000 >/dev/null 2>&1 & pid=$!;"
        f" until max=$(cat $(find {slices} -path '*/sealmark/*/memory.max') 2>/dev/null) &&"
        ' test -n "$max"; do sleep 0.2; done; kill -9 $pid; echo $max'
    )
    most = h.m.must(command, USER).strip()
    want(most.isdigit(), f"memory.max: {most}")
    return found


@check("kill -9 of the user's command: nothing stays after the next one")
def user_kill(h: Host) -> None:
    h.m.must(
        "systemd-run --quiet --user --scope -p Delegate=yes sealmark sandbox run -- true", USER
    )
    h.nothing_left()


@check("sealmark grade as a user in such a scope: the right gradebook")
def user_grade(h: Host) -> str:
    folder = f"/home/{USER}/class"
    make_class(h, folder)
    h.m.must(f"chown -R {USER} {folder}")
    scope = "systemd-run --quiet --user --scope -p Delegate=yes"
    return grade(h, folder, USER, scope, "uml userns seccomp cgroup-v2")


@check("user namespaces switched off: doctor and run name the sysctl")
def user_without_namespaces(h: Host) -> None:
    name = "kernel.unprivileged_userns_clone"
    h.m.must(f"sysctl -q -w {name}=0")
    try:
        text = h.m.run("sealmark doctor", USER).text
        want(f"sysctl -w {name}=1" in text, text[-800:])
        done = h.m.run("sealmark sandbox run -- true", USER)
        want(done.status not in (0, 124) and done.err, done.text)
        seen = done.err.strip().splitlines()[-1]
        want("namespace" in seen, seen)
    finally:
        h.m.must(f"sysctl -q -w {name}=1")


# --- the end ---


@check("apt-get purge under a running sandbox: no process, cgroup, file or unit stays")
def purge(h: Host) -> None:
    h.create()
    h.m.must("apt-get purge -y -q sealmark </dev/null", timeout=900)
    want(h.m.run("pgrep -a sealmark").status == 1, h.m.run("pgrep -a sealmark").out)
    left = h.m.run(
        f"ls -d {HOME} /run/sealmark {TOP} /usr/libexec/sealmark /usr/bin/sealmark"
        " /lib/systemd/system/sealmark.service"
        " /etc/systemd/system/multi-user.target.wants/sealmark.service 2>/dev/null"
    ).out
    want(not left, f"left: {left}")
    units = h.m.run("systemctl list-units --all --no-pager --plain 'sealmark*'").out
    want("sealmark" not in units, f"the unit stays: {units}")


# --- parts of checks ---


def stop_and_see(h: Host, sandbox_id: str) -> None:
    status, _ = h.ask("POST", f"/v1/sandboxes/{sandbox_id}:stop")
    want(status in (200, 202), f"stop: {status}")
    h.gone(sandbox_id)


def cpu_of(h: Host, machine: str) -> int:
    return int(h.read(machine, "cpu.stat").splitlines()[0].split()[1])


def isolation_found(h: Host, user: str, wanted: list[str], scope: str = "") -> str:
    """What doctor says is there must be what is wanted, no less and no more."""
    out = h.m.must(f"{scope} sealmark doctor --json", "" if user == "root" else user)
    found = sorted(
        one["name"]
        for one in json.loads(out)["findings"]
        if one["section"] == "isolation" and one["state"] == "fine"
    )
    want(found == sorted(wanted), f"doctor found {found}")
    return ", ".join(found)


def make_class(h: Host, folder: str) -> None:
    source = "/opt/payload/examples/python-suite"
    h.m.must(
        f"mkdir -p {folder}/subs && cp -r {source}/tests {folder}/ &&"
        f" sed -i 's/cpu: 3s/cpu: 600s/; s/wall: 6s/wall: 3000s/' {folder}/tests/assignment.yaml &&"
        f" for s in {' '.join(CLASS)}; do cp -r {source}/submissions/$s {folder}/subs/; done"
    )


def grade(h: Host, folder: str, user: str, scope: str, isolation: str) -> str:
    h.m.must(
        f"cd {folder} && {scope} sealmark grade -j 1 tests subs -o results", user, timeout=1800
    )
    book = h.m.must(f"cat {folder}/results/gradebook.csv").splitlines()[1:]
    for line in book:
        student, status, score, most, _, seen, *_ = line.split(",")
        want((status, score, most) == ("graded", CLASS[student], "20"), line)
        want(seen == isolation, line)
    want(len(book) == len(CLASS), book)
    h.nothing_left()
    return f"{len(book)} students, {isolation}"
