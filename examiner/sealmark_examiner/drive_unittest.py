# SPDX-License-Identifier: Apache-2.0 - runs tests of the unittest framework, one verdict each.
from __future__ import annotations

import sys
from contextlib import suppress

from . import canary, frameworks, lazy

with lazy.modules("argparse", "difflib", "pprint", "traceback"):
    import unittest

from .modules import Finder
from .report import Report
from .scope import Broken, Fault, FixtureFault
from .session import Session
from .verdicts import Outcome, judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Error = tuple[Any, Any, Any]


class CanaryTest(unittest.TestCase):
    session: Session

    def __init__(self, name: str) -> None:
        super().__init__("run_canary")
        self.name = name

    def id(self) -> str:
        return self.name

    def run_canary(self) -> None:
        canary.check(self.session)


def load(tests: str, files: list[str]) -> unittest.TestSuite:
    """Import the test files; what goes wrong here is the teacher's affair and is raised."""
    loader = unittest.TestLoader()
    suite = unittest.TestSuite()
    for file in files:
        name = file.removesuffix(".py").replace("/", ".")
        __import__(name)
        suite.addTest(loader.loadTestsFromModule(sys.modules[name]))
    return suite


def flatten(suite: Any) -> Iterator[Any]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from flatten(each)
        else:
            yield each


class Result(unittest.TestResult):
    """Turns what unittest tells into lines of the report."""

    def __init__(self, session: Session, report: Report, tests: str) -> None:
        super().__init__()
        self.session = session
        self.reporter = report
        self.tests_path = tests
        self.outcome = Outcome()
        self.fixtures: dict[str, tuple[str, str]] = {}

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self.outcome = Outcome()
        self.reporter.start(test.id())
        self.session.begin(test.id())

    def stopTest(self, test: Any) -> None:
        super().stopTest(test)
        scope = self.session.finish(self.outcome.kind == "failed")
        if self.session.broken:
            raise Broken(self.session.broken)
        verdict, detail = judge(self.session, scope, self.outcome, self.tests_path)
        self.reporter.test(test.id(), verdict, detail, scope)

    def addSuccess(self, test: Any) -> None:
        pass

    def addFailure(self, test: Any, err: Error) -> None:  # type: ignore[override]
        self.outcome.add("failed", err[1])

    def addError(self, test: Any, err: Error) -> None:  # type: ignore[override]
        if isinstance(test, unittest.TestCase):
            self.outcome.add("failed", err[1])
            return
        # "setUpClass (test_hw.TestAdd)": none of its tests will be run
        scope = self.session.finish(True)
        outcome = Outcome("failed", err[1])
        verdict, detail = judge(self.session, scope, outcome, self.tests_path)
        name = test.id().partition("(")[2].rstrip(")")
        if not test.id().startswith("tearDown"):
            self.fixtures[name] = verdict, f"{test.id()}: {detail}"

    def addSkip(self, test: Any, reason: str) -> None:
        if isinstance(test, unittest.TestCase):
            self.outcome.add("skipped", text=reason)
        else:
            self.fixtures[test.id().partition("(")[2].rstrip(")")] = "skipped", reason

    def addExpectedFailure(self, test: Any, err: Error) -> None:  # type: ignore[override]
        self.outcome.add("expected")

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.outcome.add("failed", text="passed, and was expected to fail")

    def addSubTest(self, test: Any, subtest: Any, err: Error | None) -> None:  # type: ignore[override]
        if err is not None:
            self.outcome.add("failed", err[1])
            self.outcome.notes.append(subtest.id().removeprefix(test.id()).strip()[:200])


def prepare(finder: Finder, test: unittest.TestCase) -> None:
    """Import the student's modules first, outside of the test's own code: an exception of the
    import must not be taken for one that the test expects."""
    inner = test.setUp

    def set_up() -> None:
        finder.fill(type(test).__module__)
        inner()

    test.setUp = set_up  # type: ignore[method-assign]


def run(finder: Finder, report: Report, tests: str, files: list[str], skip: frozenset[str]) -> None:
    """Run all but those to skip; every test is reported when this returns."""
    session = finder.session
    suite = load(tests, files)
    if skip:
        suite = unittest.TestSuite(case for case in flatten(suite) if case.id() not in skip)
    for module in list(sys.modules.values()):
        if str(getattr(module, "__file__", "")).startswith(tests):
            finder.scan(module)
    finder.loading = False
    frameworks.guard_unittest()
    cases = list(flatten(suite))
    CanaryTest.session = session
    result = Result(session, report, tests)
    CanaryTest(canary.START).run(result)
    for case in cases:
        prepare(finder, case)
    session.begin("", False)
    with suppress(Fault, FixtureFault):  # at a moment when no test was there to take it
        suite.run(result)
    for case in cases:
        if case.id() not in report.verdicts:
            cls = type(case)
            names = (f"{cls.__module__}.{cls.__qualname__}", cls.__module__)
            found = next((result.fixtures[name] for name in names if name in result.fixtures), None)
            verdict, detail = found or ("not_run", "the framework did not run it")
            report.test(case.id(), verdict, detail, session.begin("", False))
    CanaryTest(canary.END).run(result)


def collect(finder: Finder, tests: str, files: list[str]) -> list[str]:
    """The ids of all tests, in the order in which they run."""
    return [case.id() for case in flatten(load(tests, files))]
