# SPDX-License-Identifier: Apache-2.0 - runs tests with pytest in this process, one verdict each.
from __future__ import annotations

import os
import sys

import pytest

from . import canary, frameworks
from .modules import Finder, LoadingError
from .report import Report
from .scope import Broken
from .session import Session
from .verdicts import Outcome, judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# Parts of pytest that tests of a student's module have no use for, and that cost time or write.
LEFT_OUT = ("cacheprovider", "junitxml", "pastebin", "stepwise", "doctest", "faulthandler", "nose")
INI_FILES = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


class CanaryItem(pytest.Item):
    checked: Session

    def runtest(self) -> None:
        canary.check(self.checked)

    def repr_failure(self, excinfo: Any, style: Any = None) -> str:
        return ""  # pytest's own is slow, and nobody reads it


class Plugin:
    """Our hooks; `report` is None while collecting."""

    def __init__(
        self,
        finder: Finder,
        report: Report | None,
        tests: str,
        skip: frozenset[str] = frozenset(),
    ) -> None:
        self.skip = skip
        self.finder = finder
        self.report = report
        self.tests = tests
        self.names: list[str] = []
        self.problem = ""
        self.outcome = Outcome()

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.problem:
            error = getattr(report, "sealmark_error", None)
            if isinstance(error, LoadingError):
                self.problem = str(error).replace("the tests:", f"{report.nodeid}:", 1)
            else:
                self.problem = f"{report.nodeid}: {report.longreprtext[-1500:]}"

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: Any) -> Iterator[None]:
        outcome = yield
        report = outcome.get_result()
        if report.failed:
            error = getattr(getattr(report, "call", None), "excinfo", None)
            error = error.value if error is not None else None
            while error is not None and not isinstance(error, LoadingError):
                error = error.__cause__ or error.__context__
            report.sealmark_error = error

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: Any, items: list[Any]) -> None:
        items[:] = [item for item in items if item.nodeid not in self.skip]
        self.names = [item.nodeid for item in items]
        if self.report is None:
            return
        CanaryItem.checked = self.finder.session
        items.insert(0, CanaryItem.from_parent(session, name=canary.START, nodeid=canary.START))
        items.append(CanaryItem.from_parent(session, name=canary.END, nodeid=canary.END))

    def pytest_collection_finish(self, session: Any) -> None:
        if self.report is None:
            return
        for module in list(sys.modules.values()):
            if str(getattr(module, "__file__", "")).startswith(self.tests):
                self.finder.scan(module)
        self.finder.loading = False
        frameworks.guard_unittest()
        frameworks.guard_pytest()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Iterator[None]:
        assert self.report is not None
        session = self.finder.session
        self.outcome = Outcome()
        self.report.start(item.nodeid)
        session.begin(item.nodeid)
        yield
        scope = session.finish(self.outcome.kind == "failed")
        if session.broken:
            raise Broken(session.broken)
        verdict, detail = judge(session, scope, self.outcome, self.tests)
        self.report.test(item.nodeid, verdict, detail, scope)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: Any) -> None:
        """An exception of the import must not be taken for one that a test expects."""
        module = getattr(item, "module", None)
        if module is not None:
            self.finder.fill(module.__name__)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[None]:
        outcome = yield
        report = outcome.get_result()
        expected = getattr(report, "wasxfail", None)
        if report.skipped and expected is not None:
            self.outcome.add("expected")
        elif report.skipped:
            self.outcome.add("skipped", text=str(call.excinfo.value) if call.excinfo else "")
        elif report.failed:
            self.outcome.add("failed", call.excinfo.value if call.excinfo else None, report.when)


def options(tests: str) -> list[str]:
    """The command line: nothing of the student's is looked at, nothing is written."""
    line = ["--rootdir", tests, "--capture=sys", "-q", "--no-header", "--no-summary"]
    line += ["--tb=native", "-o", "addopts="]
    for name in LEFT_OUT:
        line += ["-p", f"no:{name}"]
    found = next((name for name in INI_FILES if os.path.exists(f"{tests}/{name}")), None)
    return [*line, "-c", f"{tests}/{found}"] if found else line


def main(plugin: Plugin, tests: str, files: list[str], *more: str) -> int:
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    targets = [f"{tests}/{file}" for file in files]
    return int(pytest.main([*options(tests), *more, *targets], plugins=[plugin]))


def collect(finder: Finder, tests: str, files: list[str]) -> list[str]:
    """The ids of all tests, in the order in which they run."""
    plugin = Plugin(finder, None, tests)
    sys.dont_write_bytecode = False  # what pytest makes of the tests is kept for the runs
    status = main(plugin, tests, files, "--collect-only")
    if plugin.problem:
        raise LoadingError(plugin.problem)
    if status not in (0, 5):
        raise LoadingError(f"pytest cannot collect the tests (its exit status is {status})")
    return plugin.names


def run(finder: Finder, report: Report, tests: str, files: list[str], skip: frozenset[str]) -> None:
    """Run all but those to skip; every test is reported when this returns."""
    plugin = Plugin(finder, report, tests, skip)
    main(plugin, tests, files)
    session = finder.session
    if session.broken:
        raise Broken(session.broken)
    for name in plugin.names:
        if name not in report.verdicts:
            report.test(name, "not_run", "pytest did not run it", session.begin("", False))
