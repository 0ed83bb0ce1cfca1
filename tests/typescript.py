# SPDX-License-Identifier: Apache-2.0
"""The TypeScript SDK, built: its dependencies by the lock file, once for each lock."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "sdk" / "typescript"


def run(*command: object, cwd: Path = PACKAGE, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=170,
        env=env,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def install() -> None:
    run(ROOT / "scripts" / "npm-ci", PACKAGE)


def readme_blocks() -> list[str]:
    return re.findall(r"^```ts\n(.*?)^```$", (PACKAGE / "README.md").read_text(), re.M | re.S)


@functools.cache
def build() -> None:
    """The package, its tests, its examples and those of its README, all with strict types."""
    install()
    shutil.rmtree(PACKAGE / "dist", ignore_errors=True)
    folder = PACKAGE / "examples" / "readme"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        for number, block in enumerate(readme_blocks()):
            (folder / f"block{number}.ts").write_text(block)
        tsc = PACKAGE / "node_modules" / ".bin" / "tsc"
        run(tsc, "-p", "tsconfig.build.json")
        run(tsc, "-p", "tsconfig.json")
    finally:
        shutil.rmtree(folder)


def environment() -> dict[str, str]:
    """Without the settings of whoever runs the tests."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("SEALMARK_", "RUNTIME_"))}
