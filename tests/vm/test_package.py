# SPDX-License-Identifier: Apache-2.0
"""The Debian package and its unit: what they hold works with the rights that the unit leaves."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import serving
from support import ROOT, real_home

UNIT = "lib/systemd/system/sealmark.service"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package, unpacked; it is made as on a host where nothing was built before."""
    shutil.rmtree(ROOT / "web/dist", ignore_errors=True)
    made = subprocess.run(["make", "deb"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout[-4000:] + made.stderr[-4000:]
    (found,) = (ROOT / "build/deb").glob("sealmark_*_amd64.deb")
    root = tmp_path_factory.mktemp("package")
    subprocess.run(["dpkg", "-x", found, root], check=True)
    yield root


def settings(package: Path) -> dict[str, str]:
    lines = (package / UNIT).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"[A-Z]\w+=", line))


def test_machines_run_with_the_rights_of_the_unit(package: Path) -> None:
    unit = settings(package)
    rights = [name.removeprefix("CAP_").lower() for name in unit["CapabilityBoundingSet"].split()]
    writable = [str(real_home()), f"/run/{unit['RuntimeDirectory']}", unit["ReadWritePaths"]]
    Path(writable[1]).mkdir(mode=0o711, exist_ok=True)
    # ProtectSystem=strict: everything is read-only but what the unit names
    script = (
        'for path in "$@"; do mount --rbind "$path" "$path" || exit; done;'
        "mount -o remount,ro,bind / || exit;"
        "if touch /etc/sealmark-test 2>/dev/null; then exit 9; fi;"
        'exec setpriv --no-new-privs --inh-caps=-all --bounding-set="$RIGHTS" "$PROGRAM" '
        "sandbox run -- sh -c 'echo $((6 * 7))'"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *writable],
        env={
            **os.environ,
            "RIGHTS": ",".join(["-all", *(f"+{right}" for right in rights)]),
            "PROGRAM": str(package / "usr/bin/sealmark"),
            "SEALMARK_LIBEXEC": str(package / "usr/libexec/sealmark"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_the_server_ends_without_its_machines(package: Path) -> None:
    unit = settings(package)
    assert unit["KillMode"] == "process"
    assert unit["Delegate"] == "yes"
    assert unit["RuntimeDirectoryPreserve"] == "yes"


def test_the_package_has_manual_pages_for_what_it_brings(package: Path) -> None:
    pages = {page.name for page in (package / "usr/share/man").rglob("*.gz")}
    assert {f"{page.name}.gz" for page in (ROOT / "man").glob("*.[1-8]")} <= pages


def test_the_package_has_the_console(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had it only where `make web` had been called before."""
    helpers = package / "usr/libexec/sealmark"
    page = (helpers / "web/index.html").read_bytes()
    parts = re.findall(rb'(?:src|href)="/(assets/[^"]+)"', page)
    assert any(part.endswith(b".js") for part in parts), page
    assert any(part.endswith(b".css") for part in parts), page
    assert (helpers / "web/licenses.txt").read_text().startswith("== preact")
    monkeypatch.setattr(serving, "PROGRAM", str(package / "usr/bin/sealmark"))
    monkeypatch.setenv("SEALMARK_LIBEXEC", str(helpers))
    server = serving.Server(serving.make_home(), ["--engine", "fake"])
    try:
        server.start()
        assert server.ask("GET", "/").body == page
        for part in parts:
            answer = server.ask("GET", f"/{part.decode()}")
            assert answer.status == 200 and answer.body, part
    finally:
        server.close()
