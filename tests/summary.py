#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints "PASSED FAILED" of a test report: meson's testlog.json or pytest's JUnit XML.

A program of unit tests counts with the tests it ran (cmocka says how many), not as one.
"""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

CMOCKA_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test\(s\)", re.M)
CMOCKA_FAILED = re.compile(r"^\[  FAILED  \][^\n]*?(\d+) test\(s\)", re.M)


def count_meson(path: Path) -> tuple[int, int]:
    passed = failed = 0
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        output = entry.get("stdout", "") + entry.get("stderr", "")
        inner_passed = sum(int(n) for n in CMOCKA_PASSED.findall(output))
        inner_failed = sum(int(n) for n in CMOCKA_FAILED.findall(output))
        if entry["result"] in ("OK", "EXPECTEDFAIL"):
            passed += inner_passed or 1
        else:
            # a crash hides the tests after it: at least one has failed
            passed += inner_passed
            failed += inner_failed or 1
    return passed, failed


def count_junit(path: Path) -> tuple[int, int]:
    passed = failed = 0
    # the file is pytest's own, written a moment ago
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed += 1
        elif "skipped" not in kinds:
            passed += 1
    return passed, failed


def main() -> int:
    path = Path(sys.argv[1])
    count = count_junit if path.suffix == ".xml" else count_meson
    print(*count(path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
