#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the initramfs that holds the agent: a newc cpio, the same bytes for the same program.

usage: mkcpio.py AGENT OUTPUT
"""

import stat
import sys
from pathlib import Path


def entry(
    inode: int, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)
) -> bytes:
    """One member: header of 8-digit hexadecimal numbers, name, contents, each padded to 4."""
    path = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    numbers = (inode, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % n for n in numbers) + path
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def archive(agent: bytes) -> bytes:
    """The directories that boot.c mounts on, /dev/console for the kernel, and /init."""
    members = [("dev", stat.S_IFDIR | 0o755, b"", (0, 0))]
    members += [
        (name, stat.S_IFDIR | 0o755, b"", (0, 0)) for name in ("image", "layer", "root", "cgroup")
    ]
    members += [
        ("dev/console", stat.S_IFCHR | 0o600, b"", (5, 1)),
        ("init", stat.S_IFREG | 0o700, agent, (0, 0)),
    ]
    body = b"".join(
        entry(inode, name, mode, data, device)
        for inode, (name, mode, data, device) in enumerate(members, start=1)
    )
    body += entry(0, "TRAILER!!!", 0)
    return body + bytes(-len(body) % 512)


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    Path(sys.argv[2]).write_bytes(archive(Path(sys.argv[1]).read_bytes()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
