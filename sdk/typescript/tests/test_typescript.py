# SPDX-License-Identifier: Apache-2.0
"""The TypeScript SDK is built with strict types, and passes its own tests."""

import json
import re
import shutil
from pathlib import Path

import sealmark

from typescript import PACKAGE, build, environment, run


def test_it_builds_and_passes_its_tests() -> None:
    build()
    out = run("node", "--test", "build/tests/", env=environment())
    counts = dict(re.findall(r"^. (pass|fail) (\d+)$", out, re.M))
    assert int(counts["pass"]) > 50, out
    assert counts["fail"] == "0", out


def test_the_versions_are_the_same() -> None:
    named = json.loads((PACKAGE / "package.json").read_text())["version"]
    lock = json.loads((PACKAGE / "package-lock.json").read_text())["version"]
    source = (PACKAGE / "src" / "version.ts").read_text()
    assert named == lock == sealmark.__version__
    assert f'VERSION = "{named}"' in source


def test_the_package_alone_has_types(tmp_path: Path) -> None:
    """A program of somebody who has nothing but the package, and checks its declarations too."""
    build()
    package = tmp_path / "node_modules" / "sealmark"
    shutil.copytree(PACKAGE / "dist", package / "dist")
    shutil.copy(PACKAGE / "package.json", package)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "program.ts").write_text(
        'import { type CommandResult, Sandbox } from "sealmark";\n'
        "export async function run(command: string): Promise<CommandResult> {\n"
        "  await using box = await Sandbox.create({ vcpu: 1 });\n"
        "  return box.exec(command);\n"
        "}\n"
    )
    tsc = PACKAGE / "node_modules" / ".bin" / "tsc"
    options = ["--strict", "--target", "es2022", "--module", "nodenext"]
    run(tsc, *options, tmp_path / "program.ts", cwd=tmp_path)
    # a program in CommonJS
    (tmp_path / "program.cjs").write_text(
        'import("sealmark").then((it) => console.log(typeof it.Runtime, typeof it.Terminal));\n'
    )
    assert run("node", tmp_path / "program.cjs") == "function function\n"


def test_the_package_is_whole() -> None:
    """What would be published: the built files and the README, no tests."""
    build()
    (packed,) = json.loads(run("npm", "pack", "--dry-run", "--json", "--ignore-scripts"))
    names = {file["path"] for file in packed["files"]}
    assert {"package.json", "README.md", "dist/index.js", "dist/index.d.ts"} <= names
    assert all(n in ("package.json", "README.md") or n.startswith("dist/") for n in names)
