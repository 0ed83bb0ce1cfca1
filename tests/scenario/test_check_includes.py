# SPDX-License-Identifier: Apache-2.0
"""The check of the includes finds what it is there to find."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def includes() -> ModuleType:
    path = Path(__file__).parent.parent / "check_includes.py"
    spec = importlib.util.spec_from_file_location("check_includes", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


GOOD = {
    "src/base/a.h": "#include <stdio.h>\n",
    "src/wire/w.h": "",
    "src/jail/j.h": '#include "base/a.h"\n#include "engine/e.h"\n',
    "src/engine/e.h": "",
    "src/sandbox/s.c": '#include "internal.h"\n#include "jail/j.h"\n',
    "src/sandbox/internal.h": '#include "wire/wire.h"\n#include "wire/w.h"\n',
    "src/wire/wire.h": "",
    "agent/main.c": '#include "agent.h"\n#include "wire/w.h"\n',
    "agent/agent.h": "",
}


def test_good_tree(includes: ModuleType, tmp_path: Path) -> None:
    assert includes.check(tree(tmp_path, GOOD)) == []


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("src/base/b.c", '#include "wire/w.h"\n', "src/base/b.c:1: base may include only base"),
        ("src/wire/x.c", '\n#include "base/a.h"\n', "src/wire/x.c:2: wire may include only wire"),
        ("src/engine/f.c", '#include "sandbox/internal.h"\n', "engine is below sandbox"),
        ("agent/x.c", '#include "base/a.h"\n', "agent may include only agent, wire, not base"),
        ("src/engine/f.c", '#include "jail/j.h"\n', "in a circle: engine -> jail -> engine"),
        ("src/grade/g.c", '#include "gone.h"\n', '"gone.h" is no file of ours'),
        ("src/misc/m.c", "", "the folder misc is not in LEVELS"),
    ],
)
def test_bad_trees(includes: ModuleType, tmp_path: Path, name: str, text: str, says: str) -> None:
    complaints = includes.check(tree(tmp_path, {**GOOD, name: text}))
    assert any(says in c for c in complaints)


def test_empty_tree(includes: ModuleType, tmp_path: Path) -> None:
    assert includes.check(tmp_path) != []
