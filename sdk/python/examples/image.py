# SPDX-License-Identifier: Apache-2.0
"""Builds the image of a course and shows what it has."""

from sealmark import Runtime

with Runtime() as runtime:
    image = runtime.images.build(
        name="cs101-grader",
        recipe={
            "base": "default",
            "apt": ["default-jdk-headless"],
            "pip": ["pytest", "hypothesis"],
        },
        on_log=lambda line: print("log:", line.text),
    )
    print(f"cs101-grader@{image.version} is {image.state}")
    with runtime.sandboxes.create(image="cs101-grader", memory_mib=2048) as box:
        print(box.exec("java -version 2>&1", check=True).stdout, end="")
        print(box.exec("python3 -c 'import hypothesis; print(hypothesis.__name__)'").stdout, end="")
