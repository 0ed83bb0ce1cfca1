# SPDX-License-Identifier: Apache-2.0
"""One sandbox for each of many students at once, also beyond the limit of the server.

usage: python3 course.py STUDENTS
"""

import asyncio
import sys

from sealmark import AsyncRuntime


async def student(runtime: AsyncRuntime, number: int) -> str:
    box = await runtime.sandboxes.create(
        vcpu=1,
        memory_mib=256,
        network={"internet": False},
        timeout_seconds=300,
        on_lease_end="stop",
        labels={"course": "cs101", "assignment": "hw3", "student": f"s{number}"},
    )
    async with box:
        seen = await runtime.sandboxes.list(labels={"course": "cs101", "student": f"s{number}"})
        assert [other.id async for other in seen] == [box.id]
        return (await box.exec(["echo", f"student {number}"], check=True)).stdout


async def main(students: int) -> None:
    async with AsyncRuntime(wait_for_capacity=600) as runtime:
        for line in await asyncio.gather(*(student(runtime, i) for i in range(students))):
            print(line, end="")
        left = await runtime.sandboxes.list(labels={"course": "cs101", "assignment": "hw3"})
        print(f"{len(await left.to_list())} left")


asyncio.run(main(int(sys.argv[1])))
