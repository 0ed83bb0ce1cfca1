# SPDX-License-Identifier: Apache-2.0
"""guest/setup.sh without a network: what it leaves when it is stopped."""

import os
import select
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from support import ROOT, wait_until

FAKE = """#!/bin/sh
sleep 100 &
echo $$ $! >"$FIFO"
wait
sleep 100
"""


def is_over(pid: int) -> bool:
    """Gone, or dead and not waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's set-up needs ranges of ids")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped(empty_home: Path, tmp_path: Path, number: int) -> None:
    """It said that all was removed and then waited minutes for the job that it had not killed."""
    for name, text in [("mmdebstrap", FAKE), ("mkfs.erofs", "#!/bin/sh\n")]:
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    started = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    env = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SEALMARK_HOME": str(empty_home),
        "SEALMARK_DEBIAN_MIRROR": "http://mirror.invalid/debian",
        "FIFO": str(fifo),
    }
    setup = subprocess.Popen(
        [ROOT / "guest/setup.sh", "--image", "default"],
        env=env,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert select.select([started], [], [], 60)[0], "the image was not begun"
        job, child = map(int, os.read(started, 100).split())
        os.killpg(setup.pid, number)
        _, errors = setup.communicate(timeout=60)
    finally:
        setup.kill()
        os.close(started)
    assert setup.returncode == 128 + number
    assert b"stopped" in errors
    assert not any((empty_home / "tmp").iterdir())
    assert not (empty_home / "images").exists()
    for pid in (job, child):
        wait_until(lambda pid=pid: is_over(pid), "the job and its child to end")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_links_to_images_of_root(empty_home: Path, tmp_path: Path) -> None:
    """It built the image for minutes and then could not put it there."""
    shutil.copytree(ROOT / "guest", tmp_path / "guest")  # the clone may be out of others' reach
    (tmp_path / "images").mkdir()
    (empty_home / "images").symlink_to(tmp_path / "images")
    os.chown(empty_home, 65534, 65534)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    done = subprocess.run(
        [tmp_path / "guest/setup.sh", "--image", "default"],
        env={**os.environ, "SEALMARK_HOME": str(empty_home)},
        capture_output=True,
        timeout=60,
        user=65534,
        group=65534,
        extra_groups=[],
        cwd="/",
    )
    assert done.returncode == 3
    assert b"cannot write to " in done.stderr and b"/images\n" in done.stderr
