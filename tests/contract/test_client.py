# SPDX-License-Identifier: Apache-2.0
"""The public client, unchanged: one test for each of its features that this server has."""

import asyncio
import hashlib
import io
import os
import tarfile
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from serving import Server

# --- sandboxes --------------------------------------------------------------------------------


def test_the_example_of_the_documentation(client_env: None, tmp_path: Path) -> None:
    from withruntime import Runtime, Sandbox

    student, teacher = tmp_path / "student", tmp_path / "tests"
    student.mkdir()
    teacher.mkdir()
    (student / "hw.py").write_text("def double(x):\n    return 2 * x\n")
    (teacher / "test_hw.py").write_text(
        "from hw import double\n\n\ndef test_double():\n    assert double(21) == 42\n"
    )
    box = Sandbox.create(
        vcpu=1,
        memory_mib=2048,
        network={"internet": False},
        timeout_seconds=300,
        on_lease_end="stop",
    )
    with box:
        box.files.upload(str(student), "/workspace/student")
        box.files.upload(str(teacher), "/workspace/tests")
        result = box.exec(
            ["python3", "-m", "pytest", "-q", "/workspace/tests"],
            cwd="/workspace/student",
            env={"PYTHONPATH": "/workspace/student"},
            timeout_ms=60_000,
        )
        assert (result.exit_code, result.timed_out) == (0, False), result
        assert "1 passed" in result.stdout
    with Runtime() as runtime:
        assert box.id not in [s.id for s in runtime.sandboxes.list(include_stopped=True)]


def test_the_block_ends_it_also_after_an_error(runtime: Any) -> None:
    from withruntime import NotFoundError

    with pytest.raises(ZeroDivisionError), runtime.sandboxes.create(memory_mib=256) as box:
        raise ZeroDivisionError
    with pytest.raises(NotFoundError) as refused:
        runtime.sandboxes.get(box.id)
    assert refused.value.code == "not_found"
    assert refused.value.request_id


def test_keep_stops_and_does_not_delete(runtime: Any) -> None:
    with runtime.sandboxes.create(memory_mib=256, keep=True) as box:
        pass
    seen = runtime.sandboxes.get(box.id).wait_for("stopped")
    assert (seen.state, seen.info["stopReason"]) == ("stopped", "requested")
    assert runtime.sandboxes.delete(box.id)["status"] == "deleted"
    assert runtime.sandboxes.delete(box.id)["status"] == "deleted"


def test_what_a_record_says(runtime: Any) -> None:
    with runtime.sandboxes.create(
        memory_mib=256, name="says", labels={"a": "b"}, env={"SECRET": "x"}, timeout_seconds=600
    ) as box:
        info = runtime.sandboxes.get(box.id).info
        assert (info["status"], info["state"], info["name"]) == ("active", "running", "says")
        assert info["labels"] == {"a": "b"}
        assert info["envNames"] == ["SECRET"]
        assert "SECRET" not in str(info).replace("['SECRET']", "")
        assert (info["memoryMiB"], info["vcpu"], info["timeoutSeconds"]) == (256, 1, 600)
        assert info["isolation"].split()[0] in ("uml", "qemu", "firecracker")
        assert info["network"]["internet"] is True  # the default
        assert info["createdAt"] < info["readyAt"] < info["expiresAt"]
        assert info["endedAt"] is info["stopReason"] is None


def test_create_without_waiting(runtime: Any) -> None:
    box = runtime.sandboxes.create(wait=False, memory_mib=256)
    assert box.state in ("starting", "running")
    assert box.exec("echo hi").stdout == "hi\n"  # waits while it starts
    assert box.wait_for("running").state == "running"
    box.delete()


def test_labels_and_pages(runtime: Any) -> None:
    run = uuid.uuid4().hex
    boxes = [
        runtime.sandboxes.create(
            memory_mib=128, labels={"run": run, "student": f"s{i}", "half": str(i % 2)}
        )
        for i in range(5)
    ]
    ids = [b.id for b in boxes]
    assert [b.id for b in runtime.sandboxes.list(labels={"run": run})] == ids
    page = runtime.sandboxes.list(labels={"run": run}, limit=2)
    assert (len(page.data), page.has_more) == (2, True)
    assert [b.id for b in page] == ids
    odd = runtime.sandboxes.list(labels={"run": run, "half": "1"})
    assert [b.id for b in odd] == ids[1::2]
    assert runtime.sandboxes.stop_all(labels={"run": run, "half": "1"})["failed"] == []
    assert [b.id for b in runtime.sandboxes.list(labels={"run": run})] == ids[::2]
    stopped = runtime.sandboxes.list(labels={"run": run}, state=["stopped"])
    assert [b.id for b in stopped] == ids[1::2]
    gone = runtime.sandboxes.delete_all(labels={"run": run})
    assert sorted(gone["deleted"]) == sorted(ids)
    assert list(runtime.sandboxes.list(labels={"run": run}, include_stopped=True)) == []


def test_names(runtime: Any) -> None:
    from withruntime import ConflictError

    name = f"box-{uuid.uuid4().hex[:8]}"
    with runtime.sandboxes.create(name=name, memory_mib=128) as box:
        same = runtime.sandboxes.get_or_create(name)
        assert (same.id, same.info["reused"]) == (box.id, True)
        with pytest.raises(ConflictError) as refused:
            runtime.sandboxes.create(name=name, memory_mib=128)
        assert refused.value.code == "name_taken"
        assert refused.value.details["sandboxId"] == box.id
        assert [b.id for b in runtime.sandboxes.list(name=name)] == [box.id]
    other = runtime.sandboxes.get_or_create(name, memory_mib=128)
    assert other.id != box.id
    other.delete()


def test_extend_and_update(box: Any) -> None:
    before = box.info["expiresAt"]
    assert box.extend(120).info["expiresAt"] > before
    box.update(name="renamed", labels={"x": "y"}, env={"A": "1", "B": "2"})
    assert (box.info["name"], box.info["labels"]) == ("renamed", {"x": "y"})
    assert box.exec("echo $A$B").stdout == "12\n"
    box.update(name=None, env={"A": None})
    assert box.info["name"] is None
    assert box.exec("echo $A$B").stdout == "2\n"
    box.update(timeout_seconds=60)
    assert box.info["expiresAt"] < before


def test_stop_says_why(box: Any) -> None:
    from withruntime import ConflictError

    assert box.stop().state == "stopped"
    assert box.info["stopReason"] == "requested"
    assert box.stop().state == "stopped"
    with pytest.raises(ConflictError) as refused:
        box.exec("true")
    assert refused.value.code == "sandbox_stopped"
    assert refused.value.retryable is False


def test_what_is_not_there_is_refused_cleanly(runtime: Any, box: Any) -> None:
    from withruntime import ServiceUnavailableError

    calls: list[Callable[[], Any]] = [
        box.fork,
        box.snapshot,
    ]
    for call in calls:
        with pytest.raises(ServiceUnavailableError) as refused:
            call()
        assert (refused.value.code, refused.value.retryable) == ("unavailable", False)


def test_capacity_is_waited_for(own_server: Callable[..., Server]) -> None:
    from withruntime import ConflictError, Runtime

    server = own_server("--sandboxes", "2")
    waits: list[str] = []
    with Runtime(server.key, server.url, wait_for_capacity=60) as runtime:
        first = runtime.sandboxes.create(memory_mib=128)
        second = runtime.sandboxes.create(memory_mib=128)
        with pytest.raises(ConflictError) as refused:
            runtime.sandboxes.create(memory_mib=128, wait_for_capacity=0)
        assert refused.value.code == "quota_exceeded"

        def make_room(refusal: Any, seconds: float) -> None:
            waits.append(refusal.code)
            first.delete()

        third = runtime.sandboxes.create(memory_mib=128, on_capacity_wait=make_room)
        assert (third.state, waits[0]) == ("running", "quota_exceeded")
        second.delete()
        third.delete()


def test_many_at_once_with_a_small_server(own_server: Callable[..., Server]) -> None:
    from withruntime import Runtime

    server = own_server("--memory", "512M")
    done: list[str] = []
    with Runtime(server.key, server.url, wait_for_capacity=120) as runtime:

        def work(student: int) -> None:
            with runtime.sandboxes.create(
                memory_mib=128, labels={"course": "cs1", "student": str(student)}
            ) as box:
                done.append(box.exec(f"echo {student}").stdout.strip())

        threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(150)
    assert sorted(done, key=int) == [str(i) for i in range(12)]


# --- commands ---------------------------------------------------------------------------------


def test_exec_with_a_shell(box: Any) -> None:
    result = box.exec("echo out; echo err >&2; pwd; id -un; exit 3")
    assert result.exit_code == 3
    assert result.stdout == "out\n/workspace\nruntime\n"
    assert result.stderr == "err\n"
    assert not (result.timed_out or result.stdout_truncated or result.stderr_truncated)
    assert result.duration_ms >= 0
    assert result.process_id


def test_exec_without_a_shell(box: Any) -> None:
    result = box.exec(["printf", "%s|", "a b", "$HOME", ""], cwd="/tmp", env={"X": "1"})
    assert result.stdout == "a b|$HOME||"
    assert box.exec(["no-such-program"]).exit_code == 127
    assert box.exec(["/etc/passwd"]).exit_code == 126


def test_exec_reads_input(box: Any) -> None:
    assert box.exec("cat", stdin="héllo").stdout == "héllo"
    assert box.exec("od -An -tx1", stdin=b"\x00\xff\n").stdout.split() == ["00", "ff", "0a"]
    big = "x" * 300_000
    assert box.exec("wc -c", stdin=big).stdout.strip() == "300000"


def test_a_timeout_is_a_result(box: Any) -> None:
    result = box.exec("echo before; sleep 1000", timeout_ms=5000)
    assert (result.timed_out, result.exit_code, result.stdout) == (True, None, "before\n")


def test_output_is_cut_and_says_so(box: Any) -> None:
    result = box.exec("head -c 100000 /dev/zero | tr '\\0' a; echo small >&2")
    assert len(result.stdout) == 65_536
    assert (result.stdout_truncated, result.stderr_truncated) == (True, False)


def test_everything_a_command_started_dies_with_it(box: Any) -> None:
    box.exec("(setsid sleep 1000 >/dev/null 2>&1 &) ; nohup sleep 1001 >/dev/null 2>&1 &")
    assert box.exec("pgrep -c sleep", user="root").stdout.strip() == "0"


def test_exec_as_root(box: Any) -> None:
    assert box.exec("id -u; touch /etc/made", user="root").stdout == "0\n"


def test_check_raises(box: Any) -> None:
    from withruntime import CommandError

    with pytest.raises(CommandError) as failed:
        box.exec("echo why >&2; exit 5", check=True)
    assert (failed.value.exit_code, failed.value.stderr) == (5, "why\n")


def test_memory_that_is_out_is_said(box: Any) -> None:
    result = box.exec("python3 -c 'x = bytearray(2 << 30)'")
    assert result.exit_code != 0
    assert result.out_of_memory["code"] == "out_of_memory"


def test_streams(box: Any) -> None:
    pieces: list[str] = []

    def take(text: str) -> None:
        pieces.append(text)
        box.files.write(f"/tmp/seen{len(pieces)}", "")

    # each line comes before the next is printed
    result = box.exec(
        "for i in 1 2 3; do echo $i; until test -e /tmp/seen$i; do sleep 0.02; done; done;"
        " echo err >&2; exit 4",
        on_stdout=take,
        on_stderr=pieces.append,
    )
    assert result.exit_code == 4
    assert pieces == ["1\n", "2\n", "3\n", "err\n"]
    assert result.stdout + result.stderr == "1\n2\n3\nerr\n"
    events = list(box.exec_stream("printf a; sleep 0.1; printf b >&2"))
    assert [e["type"] for e in events] == ["start", "stdout", "stderr", "exit"]
    assert [e["offset"] for e in events[1:3]] == [0, 1]
    assert (events[3]["state"], events[3]["exit_code"]) == ("exited", 0)


def test_streams_keep_letters_whole(box: Any) -> None:
    pieces: list[str] = []
    box.exec(
        r"printf '\xc3'; sleep 0.1; printf '\xa9\xff'; sleep 0.1; printf '\xe2\x82'",
        on_stdout=pieces.append,
    )
    assert "".join(pieces) == "é���"


def test_a_large_stream_is_whole(box: Any) -> None:
    seen = hashlib.sha256()
    size = 0

    def take(text: str) -> None:
        nonlocal size
        size += len(text)
        seen.update(text.encode())

    result = box.exec("yes 0123456789 | head -c 8000000", on_stdout=take)
    expected = (b"0123456789\n" * 800_000)[:8_000_000]
    assert (size, result.stdout_truncated) == (8_000_000, False)
    assert seen.hexdigest() == hashlib.sha256(expected).hexdigest()


def test_a_reader_that_goes_away_leaves_the_command(box: Any) -> None:
    """It runs on and is found by its id, so that a reader that was cut off can go on."""
    events = box.exec_stream("echo begun; sleep 1000")
    process_id = next(events)["process_id"]
    assert next(events)["data"] == "begun\n"
    events.close()
    process = box.process(process_id)
    assert process.state == "running"
    process.kill()
    assert process.wait().stdout == "begun\n"


def test_lease_too_short(box: Any) -> None:
    from withruntime import ConflictError

    with pytest.raises(ConflictError) as refused:
        box.exec("touch /tmp/ran", timeout_ms=50_000_000, on_stdout=print)
    assert refused.value.code == "lease_too_short"
    assert 0 < refused.value.details["leaseSecondsLeft"] <= 300
    assert box.exec("test -e /tmp/ran").exit_code == 1


# --- files ------------------------------------------------------------------------------------


def test_small_files(box: Any) -> None:
    from withruntime import ConflictError, NotFoundError

    box.files.write("/workspace/new/dir/a.sh", "#!/bin/sh\necho ran\n", mode=0o755)
    assert box.exec(["/workspace/new/dir/a.sh"]).stdout == "ran\n"
    box.files.write("/workspace/bytes", bytes(range(256)))
    assert box.files.read("/workspace/bytes") == bytes(range(256))
    box.files.write("/workspace/empty", b"")
    assert box.files.read("/workspace/empty") == b""
    assert box.files.read_text("/workspace/new/dir/a.sh").startswith("#!")
    stat = box.files.stat("/workspace/new/dir/a.sh")
    assert (stat["type"], stat["mode"], stat["size"]) == ("file", "755", 19)
    assert (stat["uid"], stat["owner"], stat["name"]) == (1000, "runtime", "a.sh")
    with pytest.raises(NotFoundError) as refused:
        box.files.read("/workspace/none")
    assert refused.value.code == "file_not_found"
    with pytest.raises(ConflictError) as conflict:
        box.files.read("/workspace")
    assert conflict.value.code == "is_a_directory"
    assert (box.files.exists("/workspace/empty"), box.files.exists("/none")) == (True, False)


def test_rights_are_the_users(box: Any) -> None:
    from withruntime import PermissionDeniedError

    with pytest.raises(PermissionDeniedError) as refused:
        box.files.write("/etc/mine", "x")
    assert refused.value.code == "permission_denied"
    box.exec("ln -s /etc/shadow /workspace/link")
    with pytest.raises(PermissionDeniedError):
        box.files.read("/workspace/link")


def test_large_files(box: Any, tmp_path: Path) -> None:
    data = os.urandom(5_500_000)
    box.files.write("/workspace/big", data, mode=0o600)
    digest = hashlib.sha256(data).hexdigest()
    assert box.exec("sha256sum < big").stdout.split()[0] == digest
    assert box.files.stat("/workspace/big")["mode"] == "600"
    assert box.files.read("/workspace/big") == data
    assert b"".join(box.files.read_stream("/workspace/big")) == data
    box.files.download("/workspace/big", str(tmp_path / "big"))
    assert (tmp_path / "big").read_bytes() == data


def test_lists(box: Any) -> None:
    box.exec("mkdir -p d/e .h; touch a.py d/b.py d/e/c.py d/x.txt .h/y.py; ln -s a.py s")

    def paths(**options: Any) -> list[str]:
        return sorted(e["path"] for e in box.files.list("/workspace", **options))

    assert paths() == ["/workspace/a.py", "/workspace/d", "/workspace/s"]
    assert "/workspace/.h" in paths(hidden=True)
    assert "/workspace/d/e/c.py" not in paths(depth=2)
    assert "/workspace/d/e/c.py" in paths(depth=3)
    assert len(paths(depth=3, limit=2)) == 2
    found = sorted(e["path"] for e in box.files.glob("**/*.py"))
    assert found == ["/workspace/a.py", "/workspace/d/b.py", "/workspace/d/e/c.py"]
    link = next(e for e in box.files.list("/workspace") if e["name"] == "s")
    assert (link["type"], link["symlinkTarget"]) == ("symlink", "a.py")


def test_changes_of_files(box: Any) -> None:
    from withruntime import ConflictError

    box.files.mkdir("/workspace/p/q")
    box.files.write("/workspace/p/f", "1")
    box.files.write("/workspace/p/g", "2")
    with pytest.raises(ConflictError):
        box.files.rename("/workspace/p/f", "/workspace/p/g")
    box.files.rename("/workspace/p/f", "/workspace/p/g", overwrite=True)
    assert box.files.read("/workspace/p/g") == b"1"
    with pytest.raises(ConflictError) as refused:
        box.files.remove("/workspace/p")
    assert refused.value.code == "directory_not_empty"
    assert box.files.remove("/workspace/p", recursive=True) is True
    assert box.files.remove("/workspace/p", recursive=True) is False


def test_folders_go_in_and_out(box: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "run.sh").write_text("#!/bin/sh\necho ok\n")
    (source / "sub" / "run.sh").chmod(0o755)
    (source / "big").write_bytes(os.urandom(3_000_000))  # beyond one piece
    (source / "ünï").write_text("x")
    box.files.upload(str(source), "/workspace/in")
    assert box.exec(["/workspace/in/sub/run.sh"]).stdout == "ok\n"
    box.exec("echo more > in/more")
    box.files.download("/workspace/in", str(target))
    assert (target / "big").read_bytes() == (source / "big").read_bytes()
    assert (target / "sub" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (target / "more").read_text() == "more\n"
    assert (target / "ünï").read_text() == "x"


def test_archives(box: Any) -> None:
    from withruntime import ConflictError, InvalidRequestError

    box.exec("mkdir a; echo 1 > a/one")
    for gzip in (True, False):
        data = box.files.archive("/workspace/a", gzip=gzip)
        assert data.startswith(b"\x1f\x8b") == gzip
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            member = tar.extractfile(next(m for m in tar if m.isfile()))
            assert member and member.read() == b"1\n"
        box.files.unarchive(f"/workspace/b{gzip}", data)
        assert box.files.read(f"/workspace/b{gzip}/one") == b"1\n"
    with pytest.raises(InvalidRequestError):
        box.files.unarchive("/workspace/c", b"this is no archive at all" * 100)
    with pytest.raises(ConflictError) as refused:
        box.files.archive("/workspace/a/one")
    assert refused.value.code == "not_a_directory"


def test_archives_do_not_leave_their_folder(box: Any) -> None:
    from withruntime import InvalidRequestError

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("../escaped")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    with pytest.raises(InvalidRequestError):
        box.files.unarchive("/workspace/in", out.getvalue())
    assert not box.files.exists("/workspace/escaped")


# --- images, account, keys, retries -----------------------------------------------------------


def test_images(runtime: Any) -> None:
    from withruntime import NotFoundError

    image = runtime.images.resolve("default")
    assert image["state"] == "ready"
    assert "latest" in image["tags"]
    same = f"default@{image['version']}"
    for reference in (image["id"], "default:latest", same):
        assert runtime.images.resolve(reference)["id"] == image["id"]
    assert image["id"] in [i["id"] for i in runtime.images.list(name="default")]
    with runtime.sandboxes.create(image=image["id"], memory_mib=256) as box:
        assert box.info["image"] == same
    with pytest.raises(NotFoundError) as refused:
        runtime.sandboxes.create(image="no-such")
    assert refused.value.code == "image_not_found"


def test_account(runtime: Any, box: Any) -> None:
    assert runtime.me()["key"]["access"] == "full"
    limits = runtime.limits.get()
    assert limits["access"] == "full"
    rows = {row["limit"]: row for row in limits["account"]}
    assert 1 <= rows["sandbox.count"]["used"] <= rows["sandbox.count"]["max"]
    assert rows["sandbox.memory_mib"]["used"] >= 512
    assert int(runtime.usage()["held"]) > 0


def test_wrong_keys(server: Server) -> None:
    from withruntime import AuthenticationError, PermissionDeniedError, Runtime

    with Runtime(server.key[:-1] + "x", server.url) as runtime:
        with pytest.raises(AuthenticationError) as refused:
            runtime.me()
        assert refused.value.code == "unauthorized"
    with Runtime(server.make_key("--access", "read"), server.url) as runtime:
        assert runtime.me()["key"]["access"] == "read"
        with pytest.raises(PermissionDeniedError):
            runtime.sandboxes.create()


def test_wrong_fields_are_named_at_once(runtime: Any) -> None:
    from withruntime import InvalidRequestError

    with pytest.raises(InvalidRequestError) as refused:
        runtime.sandboxes.create(vcpu=99, memory_mib="much", labels={"a": 1})
    issues = {i["path"] for i in refused.value.details["issues"]}
    assert issues == {"vcpu", "memoryMiB", "labels.a"}


def test_the_same_call_again_is_answered_again(runtime: Any) -> None:
    from withruntime import InvalidRequestError

    key = str(uuid.uuid4())
    first = runtime.sandboxes.create(memory_mib=128, idempotency_key=key)
    again = runtime.sandboxes.create(memory_mib=128, idempotency_key=key)
    assert (again.id, again.info["replayed"]) == (first.id, True)
    with pytest.raises(InvalidRequestError) as refused:
        runtime.sandboxes.create(memory_mib=256, idempotency_key=key)
    assert (refused.value.code, refused.value.status) == ("idempotency_key_reused", 422)
    run = str(uuid.uuid4())
    for replayed in (False, True):
        result = first.exec("echo x >> log; cat log", idempotency_key=run)
        assert (result.stdout, result.replayed) == ("x\n", replayed)
    first.delete()


def test_async(client_env: None) -> None:
    from withruntime import AsyncRuntime

    async def one(runtime: Any, student: int) -> str:
        async with await runtime.sandboxes.create(memory_mib=128, timeout_seconds=300) as box:
            await box.files.write("/workspace/n", str(student))
            pieces: list[str] = []
            await box.exec("cat n; echo", on_stdout=pieces.append)
            result = await box.exec(["cat", "n"])
            assert "".join(pieces) == f"{student}\n"
            assert await box.files.read("/workspace/n") == result.stdout.encode()
            return result.stdout

    async def all_of_them() -> list[str]:
        async with AsyncRuntime() as runtime:
            return await asyncio.gather(*(one(runtime, i) for i in range(4)))

    assert asyncio.run(all_of_them()) == ["0", "1", "2", "3"]
