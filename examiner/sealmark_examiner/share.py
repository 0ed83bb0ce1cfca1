# SPDX-License-Identifier: Apache-2.0 - files whose names tests pass to student code.
"""
A test that passes the name of a file wants it read or written there; but the file is another
user's. What is passed by name is shared: a file or folder below the temporary folder is opened to
all, and a data file that lies beside the tests (never Python) is copied to the student's folder.

What student code writes there may be a link to a file of the tests', with the expected values: so
before it has the chance, the examiner's view of those folders becomes one without links.

But in `hw.f(hw.g(x))` the name may be one that student code made up, to be given a file with the
expected values. So what student code has said is remembered, and a name that is in it is shared
only when the tests say it themselves: when it is a constant of the test's code, the very object,
or when it lies in a temporary folder that they gave before, and no file of theirs is there yet. Nor
do the tests open a file of their own by such a name.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NAME_MOST = 4096
TEXTS_MOST = 200
ENTRIES_MOST = 1000


class Sharing:
    def __init__(
        self,
        tests: str,
        temporary: str,
        workspace: str,
        copy: Callable[[str], None],
        close_links: Callable[[], None],
    ) -> None:
        # where student code can write: links there are not followed once tests have to do with it
        self.open_to_all = (temporary, workspace, "/var/tmp", "/dev/shm")
        self.close_links = close_links
        self.temporary = temporary.rstrip("/") + "/"
        self.copy = copy
        self.tests = tests.rstrip("/") + "/"
        self.names: set[str] = set()  # of data files, also of those that are copied
        self.said: set[str] = set()  # by student code: texts with such names, or with paths
        self.too_much = False  # more than is remembered
        self.watching = False
        self.given: set[str] = set()  # temporary files and folders that the tests have shared
        self.uid = os.geteuid()
        self.data: set[str] = set()
        if tests:
            with os.scandir(tests) as entries:
                self.data = {
                    entry.name
                    for entry in entries
                    if entry.is_file() and not entry.name.endswith((".py", ".yaml", ".yml"))
                }
            self.names = set(self.data)

    def share(self, name: str) -> None:
        """`name` is about to be passed as an argument."""
        if len(name) > NAME_MOST or "\0" in name:
            return
        if name in self.data:
            if not self.is_said(name) or self.is_constant(name):
                self.data.discard(name)
                self.copy(name)
        elif name.startswith(self.temporary):
            self.open(name)

    def hear(self, text: str) -> None:
        """Student code said this; what the tests cut out of it is its own word, too."""
        path = "/" in text
        if path and any(folder in text for folder in self.open_to_all):
            self.close_links()
        named = any(name in text for name in self.names)
        of_tests = named or (path and ("/proc/" in text or "sealmark" in text))
        if of_tests and not self.watching and len(self.tests) > 1:
            self.watching = True
            sys.addaudithook(self.check_open)
        if (of_tests or (path and self.temporary in text)) and text not in self.said:
            if len(self.said) >= TEXTS_MOST or len(text) > NAME_MOST:
                self.too_much = True
            else:
                self.said.add(text)

    def check_open(self, event: str, args: tuple[object, ...]) -> None:
        """A file of the tests that is opened by a name which student code gave: what the test reads
        there is not the student's, and may be what it is to be compared with."""
        if event != "open" or type(args[0]) is not str:
            return
        name = args[0]
        if self.is_said(name) and not self.is_constant(name):
            path = os.path.realpath(name)
            # what the student was given holds nothing that he may not know
            given = self.names - self.data
            if path.startswith(self.tests) and path[len(self.tests) :] not in given:
                raise PermissionError(13, "a file of the tests, named by student code", name)

    def is_said(self, part: str) -> bool:
        return self.too_much or any(part in text for text in self.said)

    def is_constant(self, name: str) -> bool:
        """True when the test's code has this very string, which no answer can bring about."""
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith(self.tests) and holds(code.co_consts, name):
                return True
            frame = frame.f_back
        return False

    def is_made_up(self, path: str) -> bool:
        """A path below the temporary folder that student code may have brought in."""
        first = path[len(self.temporary) :].partition("/")[0]
        if first not in self.given:
            if self.is_said(first):
                return True
            self.given.add(first)
            return False
        return os.path.lexists(path) and self.is_said(os.path.basename(path))

    def open(self, name: str) -> None:
        """Open a path below the temporary folder, and the way to it, as far as it is ours."""
        path = os.path.normpath(name)
        if not path.startswith(self.temporary):
            return
        self.close_links()
        if self.is_made_up(path):
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


def holds(constants: tuple[object, ...], text: str) -> bool:
    for each in constants:
        if each is text or (type(each) is tuple and holds(each, text)):
            return True
    return False
