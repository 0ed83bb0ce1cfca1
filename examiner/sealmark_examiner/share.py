# SPDX-License-Identifier: Apache-2.0 - files whose names tests pass to student code.
"""
A test that passes the name of a file wants it read or written there; but the file is another
user's. What is passed by name is shared: a file or folder below the temporary folder is opened to
all, and a data file that lies beside the tests (never Python) is copied to the student's folder.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NAME_MOST = 4096
ENTRIES_MOST = 1000


class Sharing:
    def __init__(self, tests: str, temporary: str, copy: Callable[[str], None]) -> None:
        self.temporary = temporary.rstrip("/") + "/"
        self.copy = copy
        self.uid = os.geteuid()
        self.data: set[str] = set()
        if tests:
            with os.scandir(tests) as entries:
                self.data = {
                    entry.name
                    for entry in entries
                    if entry.is_file() and not entry.name.endswith((".py", ".yaml", ".yml"))
                }

    def share(self, name: str) -> None:
        """`name` is about to be passed as an argument."""
        if len(name) > NAME_MOST or "\0" in name:
            return
        if name in self.data:
            self.data.discard(name)
            self.copy(name)
        elif name.startswith(self.temporary):
            self.open(name)

    def open(self, name: str) -> None:
        """Open a path below the temporary folder, and the way to it, as far as it is ours."""
        path = os.path.normpath(name)
        if not path.startswith(self.temporary):
            return
        above = os.path.dirname(path)
        while above.startswith(self.temporary):
            self.allow(above, 0o111)
            above = os.path.dirname(above)
        if not os.path.lexists(path):  # to be made by student code
            path = os.path.dirname(path)
            if path.startswith(self.temporary):
                self.allow(path, 0o777)
            return
        self.allow(path, 0o777 if os.path.isdir(path) else 0o666)
        if os.path.isdir(path) and not os.path.islink(path):
            left = ENTRIES_MOST
            for folder, folders, files in os.walk(path):
                for entry in folders:
                    self.allow(f"{folder}/{entry}", 0o777)
                for entry in files:
                    self.allow(f"{folder}/{entry}", 0o666)
                left -= len(folders) + len(files)
                if left <= 0:
                    break

    def allow(self, path: str, bits: int) -> None:
        try:
            info = os.lstat(path)
            kind = info.st_mode & 0o170000
            if info.st_uid == self.uid and kind in (0o040000, 0o100000) and bits & ~info.st_mode:
                os.chmod(path, info.st_mode & 0o7777 | bits, follow_symlinks=True)
        except OSError:
            return  # not there yet: student code is to make it
