# SPDX-License-Identifier: Apache-2.0 - the examiner's main: collect the tests, or run them.
from __future__ import annotations

import _socket
import importlib
import json
import os
import sys

from .modules import Finder, LoadingError, wanted_modules
from .report import Report
from .scope import Broken
from .session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONFIG_MOST = 8 << 20
SHADOWS = ("pytest", "_pytest", "conftest", "sitecustomize", "usercustomize", "pluggy", "numpy")
FORGED = ("results.json", "result.json", "report.xml", "junit.xml", "results.xml", "ctrf.json")


def read_config(fd: int) -> dict[str, Any]:
    data = bytearray()
    while piece := os.read(fd, 1 << 16):
        data += piece
        if len(data) > CONFIG_MOST:
            raise Broken("the configuration is too large")
    os.close(fd)
    return json.loads(bytes(data))


def test_files(tests: str) -> list[str]:
    """Python files that hold tests: test*.py, *test.py, *tests.py; without any, all."""
    found: list[str] = []
    for path, folders, files in os.walk(tests):
        folders[:] = sorted(each for each in folders if each[:1] not in "._")
        under = path[len(tests) :].lstrip("/")
        found += [f"{under}/{name}".lstrip("/") for name in sorted(files) if name.endswith(".py")]
    named = []
    for file in found:
        stem = file.rpartition("/")[2].removesuffix(".py").lower()
        if stem.startswith("test") or stem.endswith(("test", "tests")):
            named.append(file)
    return named or [file for file in found if not file.endswith(("conftest.py", "__init__.py"))]


def framework_of(tests: str, files: list[str]) -> str:
    """unittest when all that is there is unittest's; else pytest, which runs both."""
    import ast

    for file in files:
        with open(f"{tests}/{file}", "rb") as stream:
            tree = ast.parse(stream.read(), file)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import) and any(each.name == "pytest" for each in node.names):
                return "pytest"
            if isinstance(node, ast.ImportFrom) and node.module == "pytest":
                return "pytest"
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                return "pytest"
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test") and not node.bases:
                return "pytest"
    return "pytest" if os.path.exists(f"{tests}/conftest.py") else "unittest"


def shadows(workspace: str) -> bool:
    """Files of the submission that bear the name of something of Python's."""
    try:
        names = {name.removesuffix(".py") for name in os.listdir(workspace)}
    except OSError:  # closed by what ran before this examiner
        return False
    return any(name in sys.stdlib_module_names or name in SHADOWS for name in names)


def forged(workspace: str) -> bool:
    try:
        return any(name in FORGED for name in os.listdir(workspace))
    except OSError:
        return False


def collect(config: dict[str, Any], report: Report, tests: str, files: list[str]) -> None:
    framework = config.get("framework") or framework_of(tests, files)
    modules = wanted_modules(tests, files, config.get("modules") or [])
    report.line({"framework": framework, "modules": modules})
    if not modules:
        raise LoadingError(
            "the tests import no module of the student's; name it in assignment.yaml: suite.modules"
        )
    session = Session(None, config)
    finder = Finder(modules, session)
    sys.meta_path.insert(0, finder)
    driver = importlib.import_module(f"{__package__}.drive_{framework}")
    names = driver.collect(finder, tests, files)
    for name in names:
        report.line({"id": name})
    precompile(os.path.dirname(os.path.dirname(__file__)), tests)
    report.line({"done": len(names)})


def precompile(*folders: str) -> None:
    """What the runs will load, compiled here once; nothing can come between source and code."""
    import py_compile

    for folder in folders:
        for path, _, files in os.walk(folder):
            for name in files:
                if name.endswith(".py"):
                    try:
                        py_compile.compile(
                            f"{path}/{name}",
                            doraise=True,
                            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                        )
                    except (py_compile.PyCompileError, OSError):
                        continue


def examine(config: dict[str, Any], session: Session, report: Report, tests: str) -> None:
    files = test_files(tests)
    finder = Finder(config["modules"], session)
    sys.meta_path.insert(0, finder)
    driver = importlib.import_module(f"{__package__}.drive_{config['framework']}")
    if shadows(session.workspace):
        session.cheats.add("SHADOW")
    driver.run(finder, report, tests, files, frozenset(config.get("skip", ())))
    session.close()
    if forged(session.workspace):
        session.cheats.add("FORGED_REPORT")
    if session.broken:
        raise Broken(session.broken)
    report.done(session.cheats)


def set_up(tests: str, temporary: str) -> None:
    os.umask(0o022)
    os.environ.clear()
    os.environ.update(
        HOME=temporary, LANG="C.UTF-8", PATH="/usr/local/bin:/usr/bin:/bin", TMPDIR=temporary
    )
    os.chdir(tests)
    sys.argv = ["tests"]
    sys.path.insert(0, tests)


def main(control: _socket.socket, in_fd: int, report_fd: int) -> int:
    """0 when the report is whole, 70 when something of ours failed, 65 when the tests are bad."""
    config = read_config(in_fd)
    tests = config["tests"].rstrip("/")
    report = Report(report_fd, config.get("nonce", ""))
    try:
        set_up(tests, config.get("tmp", "/tmp"))
        if config["mode"] == "collect":
            collect(config, report, tests, test_files(tests))
        else:
            examine(config, Session(control, config), report, tests)
        return 0
    except Broken as error:
        report.line({"broken": str(error)})
        return 70
    except Exception as error:  # noqa: BLE001 - an error of the tests themselves
        report.line({"error": explain(error, tests)})
        return 65


def explain(error: Exception, tests: str) -> str:
    """What is wrong with the tests, with file and line where that is known."""
    from .verdicts import frames, message

    if isinstance(error, LoadingError):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename:
        name = error.filename.removeprefix(tests).lstrip("/")
        return f"{name}:{error.lineno}: {error.msg}"
    lines = frames(error, tests)
    return "; ".join([message(error), *lines])
