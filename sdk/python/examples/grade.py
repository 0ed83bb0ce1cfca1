# SPDX-License-Identifier: Apache-2.0
"""Grades one submission: python3 grade.py STUDENT_FOLDER TESTS_FOLDER"""

import sys

from sealmark import NotFoundError, Runtime, Sandbox


def grade(student: str, tests: str) -> Sandbox:
    """Prints how the tests went; the sandbox that it used is gone by then."""
    with Sandbox.create(
        vcpu=1,
        memory_mib=2048,
        network={"internet": False},
        timeout_seconds=300,
        on_lease_end="stop",
    ) as box:
        box.files.upload(student, "/workspace/student")
        box.files.upload(tests, "/workspace/tests")
        result = box.exec(
            ["python3", "-m", "pytest", "-q", "/workspace/tests"],
            cwd="/workspace/student",
            env={"PYTHONPATH": "/workspace/student"},
            timeout_ms=60_000,
        )
        print(f"exit code {result.exit_code}, timed out: {result.timed_out}")
        print(result.stdout, end="")
    return box


def gone(box: Sandbox) -> bool:
    with Runtime() as runtime:
        try:
            runtime.sandboxes.get(box.id)
        except NotFoundError:
            return True
    return False


if __name__ == "__main__":
    used = grade(sys.argv[1], sys.argv[2])
    print("gone" if gone(used) else "still there")
