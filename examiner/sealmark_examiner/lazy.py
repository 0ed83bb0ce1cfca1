# SPDX-License-Identifier: Apache-2.0 - modules that are loaded when something of them is used.
"""
unittest imports what it needs for messages and for its command line, which is two thirds of the
time that its import takes; most submissions need none of it.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name in ("__path__", "__spec__", "__file__"):
            raise AttributeError(name)
        module = import_module(self.__name__)
        self.__dict__.update((key, item) for key, item in vars(module).items() if key[:2] != "__")
        return getattr(module, name)


@contextmanager
def modules(*names: str) -> Iterator[None]:
    """While this lasts, an import of one of the names gives a stand-in that loads it later."""
    made = {name: LazyModule(name) for name in names if name not in sys.modules}
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, module in made.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
