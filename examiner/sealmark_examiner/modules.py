# SPDX-License-Identifier: Apache-2.0 - `import hw` in the tests: modules that stand for the student's.
"""
Theory of operation

While the tests are loaded there is no student code to ask. A name taken from a module then
(`from hw import add`) becomes a LazyName. Before a test runs, the names that its module holds are
exchanged for what the candidate of the moment has, so that constants are plain values and classes
are classes; a LazyName that is held elsewhere (a default argument, a parametrization) asks when it
is used. Using a value while the tests are loaded is an error that names the line.
"""

from __future__ import annotations

import builtins
import os
import sys
from importlib.machinery import ModuleSpec
from types import CodeType, FrameType, ModuleType

from . import standin
from .session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

_MISSING = object()


class LoadingError(Exception):
    """The tests want a value of student code before any student code runs."""


class LazyName:
    """An attribute of a student's module, looked up when it is used."""

    def __init__(self, module: StandInModule, name: str) -> None:
        self._sealmark_module = module
        self.__name__ = name
        self.__qualname__ = name
        self.__module__ = module.__name__

    def _sealmark_resolve(self) -> Any:
        module = self._sealmark_module
        return module._sealmark_finder.value(module, self.__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._sealmark_resolve()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_sealmark") or not standin.askable(name):
            raise AttributeError(name)
        return getattr(self._sealmark_resolve(), name)

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        raise LoadingError(f"a class of the tests derives from {self.__name__}: not supported")

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self._sealmark_resolve())

    def __subclasscheck__(self, value: Any) -> bool:
        return issubclass(value, self._sealmark_resolve())

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __repr__(self) -> str:
        return f"<{self.__module__}.{self.__name__}>"


def _lazy_dunder(name: str) -> Any:
    def method(self: LazyName, *args: Any) -> Any:
        import operator

        value = self._sealmark_resolve()
        known = {"__len__": len, "__iter__": iter, "__str__": str, "__bool__": bool}.get(name)
        if known is not None:
            return known(value)
        function = getattr(operator, name, None)
        if function is not None:
            return function(value, *args)
        answer = getattr(type(value), name, _MISSING)
        return NotImplemented if answer is _MISSING else answer(value, *args)

    return method


for _name in standin.DUNDERS - {"__call__", "__hash__", "__repr__", "__next__", "__index__"}:
    setattr(LazyName, _name, _lazy_dunder(_name))


class StandInModule(ModuleType):
    """A module of the student's; attributes are asked for in the candidate."""

    _sealmark_finder: Finder

    def __getattr__(self, name: str) -> Any:
        finder = vars(self).get("_sealmark_finder")
        if finder is None:  # the import machinery looks at a module that is not ready
            raise AttributeError(name)
        if name == "__all__":
            return finder.star_names()
        if name == "__path__" or not standin.askable(name):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if finder.loading:
            return LazyName(self, name)
        return finder.value(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or name in self.__dict__:
            ModuleType.__setattr__(self, name, value)
            return
        finder = self._sealmark_finder
        if isinstance(value, StandInModule):  # a submodule, set by the import machinery
            ModuleType.__setattr__(self, name, value)
        else:
            setattr(finder.session_for(self).module(self.__name__), name, value)

    def __delattr__(self, name: str) -> None:
        finder = self._sealmark_finder
        if name in self.__dict__:
            ModuleType.__delattr__(self, name)
        else:
            delattr(finder.session_for(self).module(self.__name__), name)


class Finder:
    """First on sys.meta_path: knows only the student's modules."""

    def __init__(self, names: Iterable[str], session: Session) -> None:
        self.names = frozenset(names)
        self.session = session
        self.loading = True
        self.bound: dict[str, list[tuple[str, str, str]]] = {}
        self.filled: dict[str, int] = {}

    # -- the import protocol -----------------------------------------------------------------

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in self.names:
            return None
        if "." in name and not self.loading and not self.is_there(name):
            return None  # patch("hw.random.randint") tries to import hw.random
        spec = ModuleSpec(name, self, origin=self.path_of(name))  # type: ignore[arg-type]
        spec.submodule_search_locations = []
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandInModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["_sealmark_finder"] = self
        vars(module)["__file__"] = self.path_of(module.__name__)

    def is_there(self, name: str) -> bool:
        path = f"{self.session.workspace}/{name.replace('.', '/')}"
        return os.path.isdir(path) or os.path.exists(f"{path}.py")

    def path_of(self, name: str) -> str:
        return f"{self.session.workspace}/{name.replace('.', '/')}.py"

    # -- values ------------------------------------------------------------------------------

    def session_for(self, module: StandInModule) -> Session:
        if self.loading:
            raise LoadingError(f"{self.place()}: {module.__name__} is used while tests are loaded")
        return self.session

    def value(self, module: StandInModule, name: str) -> Any:
        if self.loading:
            raise LoadingError(
                f"{self.place()}: the value of {module.__name__}.{name} is used while the tests "
                "are loaded; use it in a test or in setUp"
            )
        try:
            value = getattr(self.session.module(module.__name__), name)
        except AttributeError as error:
            if getattr(error, "_sealmark_remote", None) is None:
                raise
            text = f"module {module.__name__!r} has no attribute {name!r}"
            error.args = (text,)
            raise
        return value

    @staticmethod
    def place() -> str:
        """Where the tests are: the innermost frame in a file of theirs."""
        tests = os.getcwd()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not frame.f_code.co_filename.startswith(tests):
            frame = frame.f_back
        if frame is None:
            return "the tests"
        return f"{frame.f_code.co_filename[len(tests) + 1 :]}:{frame.f_lineno}"

    @staticmethod
    def star_names() -> list[str]:
        """`from hw import *`: the names that the importing file uses and does not make."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__package__") == __package__:
            frame = frame.f_back
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        if frame is None:
            return []
        return sorted(free_names(frame.f_code) - set(frame.f_globals) - set(dir(builtins)))

    # -- names that test modules hold ----------------------------------------------------------

    def scan(self, module: ModuleType) -> None:
        """Remember which of a test module's names are the student's."""
        found: list[tuple[str, str, str]] = []
        for name, value in list(vars(module).items()):
            if isinstance(value, LazyName):
                found.append((name, value._sealmark_module.__name__, value.__name__))
            elif isinstance(value, StandInModule):
                found.append((name, value.__name__, ""))
        self.bound[module.__name__] = found

    def fill(self, name: str) -> None:
        """Load what test module `name` imports and give it its values; raises a Fault."""
        found = self.bound.get(name)
        if not found:
            return
        session = self.session
        module = sys.modules.get(name)
        for student in dict.fromkeys(each[1] for each in found):
            fresh = session.process is None or student not in session.loaded
            if not fresh and self.filled.get(f"{name}:{student}") == session.generation:
                continue
            wanted = tuple(each[2] for each in found if each[1] == student and each[2])
            _, values = session.load(student, wanted)
            self.filled[f"{name}:{student}"] = session.generation
            if len(values) != len(wanted):
                raise session.broke("a module without its names")
            bound = [each[0] for each in found if each[1] == student and each[2]]
            for local, attribute, (there, value) in zip(bound, wanted, values, strict=True):
                if type(value) is standin.StandInType:
                    value._sealmark_named = True
                if module is not None:
                    missing = LazyName(sys.modules[student], attribute)  # type: ignore[arg-type]
                    setattr(module, local, value if there else missing)


def free_names(code: CodeType) -> set[str]:
    """Names that a file's code and the code in it look up globally; made ones may be among them."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= free_names(constant)
    return names


def wanted_modules(tests: str, files: Sequence[str], given: Sequence[str]) -> list[str]:
    """Names that the tests import and that neither TESTS nor Python has."""
    if given:
        return list(given)
    import ast

    own = {entry.name.removesuffix(".py") for entry in os.scandir(tests)}
    names: set[str] = set()
    for file in files:
        with open(f"{tests}/{file}", "rb") as stream:
            tree = ast.parse(stream.read(), file)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    unknown = names - own - sys.stdlib_module_names
    return sorted(name for name in unknown if not _installed(name))


def _installed(name: str) -> bool:
    from importlib.machinery import PathFinder

    return PathFinder.find_spec(name) is not None
