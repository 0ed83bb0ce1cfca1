# SPDX-License-Identifier: Apache-2.0 - submissions that lie, crash, loop or attack; native part.
"""What needs a machine of its own (memory, fork bombs, reboot) is in tests/hostile."""

import os
import subprocess
from pathlib import Path

import pytest
from native import CANDIDATE_UID, Run, examine

TESTS = """
    import unittest
    import hw
    class Test(unittest.TestCase):
        def test_small(self): self.assertEqual(hw.add(2, 3), 5)
        def test_zero(self): self.assertEqual(hw.add(0, 0), 0)
        def test_negative(self): self.assertEqual(hw.add(-2, -3), -5)
    """
ALL = ("test_small", "test_zero", "test_negative")


def add(student: str, **more: object) -> Run:
    run = examine({"hw.py": student}, TESTS, **more)  # type: ignore[arg-type]
    assert run.status == 0, (run.stderr, run.events[-1:])
    assert run.proven
    return run


def left_over() -> list[str]:
    """Processes of the candidate's uid that are alive."""
    command = ["ps", "-u", str(CANDIDATE_UID), "-o", "stat="]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [line for line in text.split() if not line.startswith("Z")]


def test_right() -> None:
    run = add("def add(a, b):\n    return a + b\n")
    assert run.short() == dict.fromkeys(ALL, "passed")
    assert run.cheats == []


def test_wrong_shows_what_was_wrong() -> None:
    run = add("def add(a, b):\n    return a - b\n")
    assert run.short() == {"test_small": "failed", "test_zero": "passed", "test_negative": "failed"}
    assert "AssertionError: -1 != 5" in run.detail("test_small")
    assert "test_hw.py:5: def test_small" in run.detail("test_small")


def test_exception_names_the_students_line() -> None:
    run = add("def add(a, b):\n    return a / b * b + b\n")
    assert run.short()["test_zero"] == "error"
    assert "ZeroDivisionError: division by zero (hw.py:2 in add)" in run.detail("test_zero")


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos._exit(0)\n",
        "import sys\nsys.exit(0)\n",
        "import atexit, os\natexit.register(os._exit, 0)\nraise SystemExit\n",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
        "raise KeyboardInterrupt\n",
    ],
)
def test_t03_leaves_at_import(source: str) -> None:
    run = add(source + "def add(a, b): return a + b\n")
    assert run.short() == dict.fromkeys(ALL, "ended_early")
    assert "EXIT" in run.cheats


def test_t03_leaves_in_one_test() -> None:
    run = add("import os\ndef add(a, b):\n    return a + b if a else os._exit(0)\n")
    assert run.short() == {
        "test_small": "passed",
        "test_zero": "ended_early",
        "test_negative": "passed",
    }


def test_t04_exits_in_a_function() -> None:
    run = add("import sys\ndef add(a, b):\n    return a + b if a else sys.exit(0)\n")
    assert run.short() == {
        "test_small": "passed",
        "test_zero": "ended_early",
        "test_negative": "passed",
    }


@pytest.mark.parametrize("leave", ["os._exit(0)", "sys.exit(0)", "os.kill(os.getpid(), 9)"])
def test_leaving_is_not_the_exception_a_test_waits_for(leave: str) -> None:
    tests = """
        import unittest, hw
        class Test(unittest.TestCase):
            def test_exception(self):
                with self.assertRaises(Exception):
                    hw.f()
            def test_ignored(self):
                try:
                    hw.f()
                except BaseException:
                    pass
        """
    run = examine({"hw.py": f"import os, sys\ndef f(): {leave}\n"}, tests)
    verdicts = run.short()
    assert verdicts["test_exception"] == "ended_early"
    if "sys" not in leave:  # a test may expect SystemExit
        assert verdicts["test_ignored"] == "ended_early"


def test_failing_import_is_not_the_exception_a_test_waits_for() -> None:
    tests = """
        import unittest, hw
        class Test(unittest.TestCase):
            def test_it(self):
                with self.assertRaises(ValueError):
                    hw.f()
            def test_late(self):
                import other
                with self.assertRaises(ValueError):
                    other.f()
        """
    student = {"hw.py": "raise ValueError\n", "other.py": "raise ValueError\n"}
    run = examine(student, tests, modules=["hw", "other"])
    assert run.short() == {"test_it": "error", "test_late": "error"}


PATCHES = """
import sys, os, builtins, json, struct, unittest, unittest.case, socket, io, gc, operator
class Yes:
    def __eq__(self, other): return True
for cls in (unittest.TestCase, unittest.case.TestCase):
    for name in dir(cls):
        if name.startswith("assert"):
            setattr(cls, name, lambda *a, **k: None)
def broken(*a, **k): raise RuntimeError("patched")
for module in (json, struct, os, io, socket, operator):
    for name in dir(module):
        if not name.startswith("__") and callable(getattr(module, name)):
            try: setattr(module, name, broken)
            except Exception: pass
for name in ("len", "isinstance", "open", "print", "getattr", "type", "dict", "tuple", "repr",
             "str", "int", "hasattr", "callable", "id", "map", "all", "__import__", "Exception"):
    setattr(builtins, name, broken)
sys.stdout = sys.stderr = None
"""


def test_t06_patches_everything_wrong() -> None:
    run = add(PATCHES + "def add(a, b):\n    sys.modules.clear()\n    return a * b + 1\n")
    assert run.short() == dict.fromkeys(ALL, "failed")
    assert "PATCHED" in run.cheats


def test_t06_patches_everything_right() -> None:
    run = add(PATCHES + "def add(a, b):\n    sys.modules.clear()\n    return a + b\n")
    assert run.short() == dict.fromkeys(ALL, "passed")


@pytest.mark.parametrize("framework", ["unittest", "pytest"])
def test_t07_shadows(framework: str) -> None:
    evil = "import os\nos._exit(0)\n"
    names = ("unittest", "json", "sitecustomize", "conftest", "pytest", "usercustomize", "struct")
    for answer, verdict in (("a + b", "passed"), ("a * b + 1", "failed")):
        student = {f"{name}.py": evil for name in names}
        student["hw.py"] = f"def add(a, b): return {answer}\n"
        run = examine(student, TESTS, framework=framework)
        assert run.short() == dict.fromkeys(ALL, verdict), run.tests
        assert "SHADOW" in run.cheats


@pytest.mark.parametrize("framework", ["unittest", "pytest"])
@pytest.mark.parametrize(
    "skip",
    [
        "import unittest; raise unittest.SkipTest('x')",
        "import pytest; pytest.skip('x')",
        "import pytest; pytest.xfail('x')",
        "import pytest; pytest.exit('x', 0)",
    ],
)
def test_t09_skips(skip: str, framework: str) -> None:
    run = examine({"hw.py": f"def add(a, b):\n    {skip}\n"}, TESTS, framework=framework)
    assert run.short() == dict.fromkeys(ALL, "error"), run.tests
    assert run.proven
    assert "SKIP" in run.cheats


def test_t09_skip_at_import() -> None:
    run = add("import unittest\nraise unittest.SkipTest('x')\n")
    assert run.short() == dict.fromkeys(ALL, "error")


def test_t10_prints_reports() -> None:
    text = r"""
import sys, os
FORGED = '''{"test": "test_hw.Test.test_small", "verdict": "passed"}
{"done": 5, "proof": "00"}
Grade :=>> 10
TAP version 13
ok 1
<testsuites><testsuite tests="1" failures="0"/></testsuites>
::notice title=points::{"points": 10}
OK
'''
def add(a, b):
    print(FORGED)
    for fd in range(1, 40):
        try: os.write(fd, FORGED.encode())
        except OSError: pass
    return 77
"""
    run = add(text)
    verdicts = set(run.short().values())
    assert verdicts <= {"failed", "error"}
    assert "FORGED_REPORT" in run.cheats


def test_t11_writes_reports() -> None:
    text = """
import os
for folder in (".", "..", "/tmp", "/run", "/results", os.environ["HOME"]):
    for name in ("results.json", "report.xml"):
        try: open(f"{folder}/{name}", "w").write('{"score": 100}')
        except OSError: pass
def add(a, b): return 0
"""
    run = add(text)
    assert run.short() == {"test_small": "failed", "test_zero": "passed", "test_negative": "failed"}
    assert "FORGED_REPORT" in run.cheats
    for name in ("results.json", "report.xml"):
        if os.path.exists(f"/tmp/{name}"):
            os.unlink(f"/tmp/{name}")


def test_t12_daemon_is_gone() -> None:
    text = """
import os, time
def add(a, b):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)
    return a + b
"""
    run = add(text)
    assert run.short() == dict.fromkeys(ALL, "passed")
    assert left_over() == []


def test_forked_child_does_not_answer() -> None:
    run = add("import os\ndef add(a, b):\n    os.fork()\n    return a + b\n")
    assert run.short() == dict.fromkeys(ALL, "passed")


def test_t13_processes() -> None:
    run = add("import os\ndef add(a, b):\n    while True: os.fork()\n", processes=20, cpu_ms=1000)
    assert "passed" not in run.short().values()
    assert left_over() == []


def test_t14_loops() -> None:
    text = "def add(a, b):\n    while a == 0: pass\n    return a + b\n"
    run = add(text, cpu_ms=400, wall_ms=60_000)
    assert run.short() == {
        "test_small": "passed",
        "test_zero": "cpu_limit",
        "test_negative": "passed",
    }
    assert run.tests["test_hw.Test.test_zero"]["cpu_us"] >= 400_000


def test_t14_sleeps() -> None:
    text = "import time\ndef add(a, b):\n    if a == 0: time.sleep(10**9)\n    return a + b\n"
    run = add(text, wall_ms=5000)
    assert run.short() == {
        "test_small": "passed",
        "test_zero": "wall_limit",
        "test_negative": "passed",
    }


def test_t14_hangs_at_import() -> None:
    """Two tries, then the rest is judged alike without waiting for each."""
    tests = "import unittest, hw\nclass Test(unittest.TestCase):\n"
    for n in range(20):
        tests += f"    def test_{n}(self): self.assertEqual(hw.add(1, 1), 2)\n"
    student = "while True: pass\n"
    run = examine({"hw.py": student}, tests, cpu_ms=300, wall_ms=60_000)
    assert set(run.short().values()) == {"cpu_limit"}
    assert len(run.short()) == 20
    assert sum(test["cpu_us"] > 0 for test in run.tests.values()) == 2


def test_many_short_calls_share_one_budget() -> None:
    tests = """
        import unittest, hw
        class Test(unittest.TestCase):
            def test_it(self):
                for i in range(40):
                    hw.burn()
        """
    student = "import time\ndef burn():\n    end = time.process_time() + 0.1\n"
    student += "    while time.process_time() < end: pass\n"
    run = examine({"hw.py": student}, tests, cpu_ms=800, wall_ms=60_000)
    assert run.short() == {"test_it": "cpu_limit"}


def test_t15_memory() -> None:
    run = add("def add(a, b):\n    x = bytearray(10 << 30)\n    return a + b\n")
    assert run.short() == dict.fromkeys(ALL, "memory_limit")


@pytest.mark.parametrize("text", ["'x' * 1000", "'\\n' * 1000"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_t16_floods(text: str, stream: str) -> None:
    source = f"import sys\ndef add(a, b):\n    while a == 0: sys.{stream}.write({text})\n"
    source += "    return a + b\n"
    run = add(source, cpu_ms=5000, wall_ms=60_000)
    assert run.short() == {
        "test_small": "passed",
        "test_zero": "output_limit",
        "test_negative": "passed",
    }
    kept = run.tests["test_hw.Test.test_zero"]["out" if stream == "stdout" else "err"]
    assert kept["cut"] is True
    assert kept["total"] <= 100_000


def test_output_before_a_timeout_is_kept() -> None:
    text = "import time\ndef add(a, b):\n    print('so far', flush=True)\n    time.sleep(99)\n"
    run = add(text, wall_ms=4000)
    assert run.output("test_small") == b"so far\n"


def test_t18_finds_nothing() -> None:
    text = """
import os, glob
FOUND = []
def walk():
    for path in glob.glob("/proc/[0-9]*/*") + glob.glob("/run/**", recursive=True):
        if path.endswith(("environ", "mem", "fd", "maps", "auxv", "stack")) or ".py" in path:
            try:
                data = open(path, "rb").read(1 << 20) if not path.endswith("fd") else b""
                if b"test_hw" in data or b"assertEqual(hw.add(2, 3), 5)" in data:
                    FOUND.append(path)
            except (OSError, ValueError):
                pass
    here = os.getcwd()
    try: FOUND.extend(os.listdir(os.path.join(here, "..", "tests")))
    except PermissionError: pass
def add(a, b):
    walk()
    import gc
    for each in gc.get_objects():
        if isinstance(each, dict) and ("nonce" in each or "test_small" in each):
            FOUND.append("memory")
    if FOUND: raise LookupError(str(FOUND))
    return a + b
"""
    run = add(text, cpu_ms=20_000, wall_ms=30_000)
    assert run.short() == dict.fromkeys(ALL, "passed"), run.tests


def test_t19_file_size() -> None:
    text = "def add(a, b):\n    with open('big', 'wb') as f:\n        f.truncate(1 << 40)\n"
    run = add(text)
    assert run.short() == dict.fromkeys(ALL, "disk_limit")


def test_t19_disk_is_emptied_for_the_next_test() -> None:
    text = """
import os
def add(a, b):
    if os.path.exists("big"):
        raise LookupError("still there")
    if a == 0:
        os.mkdir("folder")
        open("folder/small", "w").close()
        with open("big", "wb") as f:
            while True: f.write(b"x" * 100000)
    return a + b
"""
    tests = TESTS.replace("test_negative", "test_zz")
    run = examine({"hw.py": text, "data/kept.txt": "x"}, tests)
    assert run.short() == {"test_small": "passed", "test_zero": "disk_limit", "test_zz": "passed"}


def test_t20_kills_everyone() -> None:
    text = "import os\ndef add(a, b):\n    try: os.kill(-1, 9)\n    except OSError: pass\n"
    run = add(text + "    return a + b\n")
    assert run.short() == dict.fromkeys(ALL, "passed")


def test_crash_names_the_signal() -> None:
    text = "import os, signal\ndef add(a, b): os.kill(os.getpid(), signal.SIGSEGV)\n"
    run = add(text)
    assert run.short() == dict.fromkeys(ALL, "error")
    assert "SIGSEGV" in run.detail("test_small")


RAW = """
import os, socket
def add(a, b):
    os.write(3, {data})
    import time
    time.sleep(5)
"""


@pytest.mark.parametrize(
    "data",
    [
        "b'\\xff\\xff\\xff\\xff'",
        "b'\\x01\\0\\0\\0Z'",
        "b'\\x01\\0\\0\\0R'",
        "b'\\x0a\\0\\0\\0RUUUUUUUUU'",
        "b'\\x05\\0\\0\\0RI\\x01\\x05I' + b'more than one message'",
        "b'\\x03\\0\\0\\0QNN'",
    ],
)
def test_broken_protocol(data: str) -> None:
    run = add(RAW.format(data=data))
    assert run.short() == dict.fromkeys(ALL, "error")
    assert "PROTOCOL" in run.cheats


def test_closed_channel() -> None:
    run = add("import os, time\ndef add(a, b):\n    os.close(3)\n    time.sleep(30)\n")
    assert run.short() == dict.fromkeys(ALL, "error")
    assert "PROTOCOL" in run.cheats


def test_no_descriptor_but_the_channel() -> None:
    text = "import os\ndef add(a, b):\n    assert os.listdir('/proc/self/fd')[:4] == "
    text += "['0', '1', '2', '3'] and len(os.listdir('/proc/self/fd')) == 5\n    return a + b\n"
    assert add(text).short() == dict.fromkeys(ALL, "passed")


def test_identity() -> None:
    text = f"""
import os
def add(a, b):
    status = open("/proc/self/status").read()
    assert os.getresuid() == ({CANDIDATE_UID},) * 3 and os.getresgid() == ({CANDIDATE_UID},) * 3
    assert os.getgroups() == []
    assert "NoNewPrivs:\\t1" in status and "CapEff:\\t0000000000000000" in status
    assert sorted(os.environ) == ["HOME", "LANG", "PATH", "USER"]
    assert os.getsid(0) == os.getpid()
    return a + b
"""
    assert add(text).short() == dict.fromkeys(ALL, "passed")


def test_lost_objects_do_not_stay() -> None:
    tests = """
        import unittest, hw
        class Test(unittest.TestCase):
            def test_it(self):
                for i in range(3000):
                    hw.Thing()
                self.assertLess(hw.alive(), 50)
        """
    student = """
import gc
class Thing: pass
def alive(): return sum(isinstance(each, Thing) for each in gc.get_objects())
"""
    run = examine({"hw.py": student}, tests)
    assert run.short() == {"test_it": "passed"}


def test_late_answer_of_an_old_process_is_refused() -> None:
    tests = """
        import unittest, hw
        KEPT = []
        class Test(unittest.TestCase):
            def test_1(self): KEPT.append(hw.Thing(1))
            def test_2(self): hw.leave()
            def test_3(self): self.assertEqual(KEPT[0].value, 1)
            def test_4(self): self.assertEqual(hw.Thing(4).value, 4)
        """
    student = "import os\nclass Thing:\n def __init__(self, v): self.value = v\n"
    student += "def leave(): os._exit(0)\n"
    run = examine({"hw.py": student}, tests)
    assert run.short() == {
        "test_1": "passed",
        "test_2": "ended_early",
        "test_3": "ended_early",
        "test_4": "passed",
    }


def test_teachers_skip_and_expected_failure() -> None:
    tests = """
        import unittest, hw
        class Test(unittest.TestCase):
            @unittest.skip("later")
            def test_1(self): pass
            @unittest.expectedFailure
            def test_2(self): self.assertEqual(hw.f(), 2)
            def test_3(self): self.skipTest("now")
        """
    run = examine({"hw.py": "def f(): return 1\n"}, tests)
    assert set(run.short().values()) == {"skipped"}


def test_examiner_loop_over_a_students_number() -> None:
    tests = """
        import unittest, hw
        class Test(unittest.TestCase):
            def test_1(self):
                for i in range(hw.n()): pass
            def test_2(self): self.assertEqual(hw.n(), 10**15)
        """
    run = examine({"hw.py": "def n(): return 10**15\n"}, tests, wall_ms=500)
    assert run.short() == {"test_1": "wall_limit", "test_2": "passed"}


def test_collect_names_the_line_that_wants_a_value() -> None:
    tests = "import unittest\nimport hw\nEXPECTED = hw.f(2)\n"
    run = examine({}, tests, mode="collect")
    assert run.status == 65
    assert "test_hw.py:3" in run.events[-1]["error"]


def test_collect_without_modules() -> None:
    run = examine(
        {}, "import unittest\nclass T(unittest.TestCase):\n def test(self): pass\n", mode="collect"
    )
    assert run.status == 65
    assert "modules" in run.events[-1]["error"]


def test_collect() -> None:
    run = examine({}, TESTS, mode="collect")
    assert run.events[0] == {"framework": "unittest", "modules": ["hw"]}
    assert [e["id"] for e in run.events[1:-1]] == [
        "test_hw.Test.test_negative",
        "test_hw.Test.test_small",
        "test_hw.Test.test_zero",
    ]
    assert run.events[-1] == {"done": 3}


def test_syntax_error_of_the_teacher() -> None:
    run = examine({}, "import unittest, hw\ndef (\n", mode="collect")
    assert run.status == 65
    assert run.events[-1]["error"].startswith("test_hw.py:2")


def test_files_passed_by_name() -> None:
    tests = {
        "test_hw.py": """
            import os, pathlib, tempfile, unittest, hw
            class Test(unittest.TestCase):
                def test_named(self):
                    with tempfile.NamedTemporaryFile("w") as f:
                        f.write("abc"); f.flush()
                        self.assertEqual(hw.read(f.name), "abc")
                def test_folder(self):
                    with tempfile.TemporaryDirectory() as folder:
                        hw.write(os.path.join(folder, "out"), "x")
                def test_folder_shared(self):
                    with tempfile.TemporaryDirectory() as folder:
                        hw.fill(folder)
                        with open(os.path.join(folder, "out")) as f:
                            self.assertEqual(f.read(), "y")
                def test_path(self):
                    with tempfile.TemporaryDirectory() as folder:
                        path = pathlib.Path(folder) / "in"
                        path.write_text("z")
                        self.assertEqual(hw.read(path), "z")
                def test_data(self): self.assertEqual(hw.read("data.txt"), "data")
                def test_own_data(self):
                    with open("data.txt") as f: self.assertEqual(f.read(), "data")
                def test_secret(self): self.assertEqual(hw.read("test_hw.py"), "")
            """,
        "data.txt": "data",
        "answers.txt": "never passed",
    }
    student = """
import os
def read(name):
    with open(name) as f: return f.read()
def write(name, text):
    with open(name, "w") as f: f.write(text)
def fill(folder): write(os.path.join(folder, "out"), "y")
"""
    run = examine({"hw.py": student}, tests)  # type: ignore[arg-type]
    assert run.short() == {
        "test_named": "passed",
        "test_folder": "passed",
        "test_folder_shared": "passed",
        "test_path": "passed",
        "test_data": "passed",
        "test_own_data": "passed",
        "test_secret": "error",
    }, run.tests


def test_names_of_the_students_choice_share_nothing() -> None:
    """`hw.f(hw.g(x))` gave the student any file whose name hw.g answered: expected values."""
    tests = {
        "test_hw.py": """
            import os, tempfile, unittest, hw
            TOKEN = os.urandom(8).hex()
            PARTS = [tempfile.gettempdir(), TOKEN]
            class Test(unittest.TestCase):
                def test_again(self):
                    hw.read(hw.choose("answers.txt is it").split()[0])
                    self.assertEqual(hw.read("answers.txt"), "42")
                def test_callback(self):
                    hw.each(lambda name: hw.read(name))
                    self.assertNotIn("callback.txt", hw.listing())
                def test_computed(self):
                    self.assertEqual(hw.read("".join(["computed", ".txt"])), "c")
                def test_in_a_list(self):
                    hw.choose("in_a_list.txt")
                    for name in ("in_a_list.txt",): self.assertEqual(hw.read(name), "l")
                def test_named_by_student(self):
                    for name in (hw.choose("/proc/self/cwd/"), os.path.dirname(__file__) + "/"):
                        with self.assertRaises(PermissionError):
                            open(hw.choose(name + "hidden.txt")).close()
                    with self.assertRaises(PermissionError): open(hw.hidden()).close()
                    self.assertEqual(hw.read("given.txt"), "g")
                    with open(hw.choose("giv" + "en.txt")) as f: self.assertEqual(f.read(), "g")
                    with open("answers.txt") as f: self.assertEqual(f.read(), "42")
                def test_nested(self):
                    hw.read(hw.nested())
                    self.assertNotIn("nested.txt", hw.listing())
                def test_part(self):
                    hw.read(hw.choose("it is in part.txt, there")[9:17])
                    self.assertNotIn("part.txt", hw.listing())
                def test_temporary(self):
                    with tempfile.TemporaryDirectory(prefix=TOKEN) as folder:
                        with open(os.path.join(folder, "golden"), "w") as f: f.write("x")
                        hw.read(hw.newest(PARTS))
                        hw.read(hw.newest(PARTS) + "/golden")
                        self.assertEqual(hw.peek(os.path.join(hw.newest(PARTS), "golden")), "")
                def test_temporary_given(self):
                    with tempfile.TemporaryDirectory(prefix=TOKEN) as folder:
                        with open(os.path.join(folder, "golden"), "w") as f: f.write("x")
                        os.chmod(os.path.join(folder, "golden"), 0o600)
                        hw.write(os.path.join(folder, "out"))
                        hw.read(hw.golden(PARTS))
                        self.assertEqual(hw.peek(hw.golden(PARTS)), "")
                        hw.write(hw.beside(os.path.join(folder, "in")))
                        with open(os.path.join(folder, "beside")) as f: f.read()
            """,
        **{f"{name}.txt": name[0] for name in ("callback", "computed", "nested", "part")},
        "in_a_list.txt": "l",
        "given.txt": "g",
        "hidden.txt": "h",
        "answers.txt": "42",
    }
    student = """
import glob, os
def peek(name):
    try:
        with open(name) as f: return f.read()
    except OSError: return ""
def read(name):
    return peek(name)
def listing(): return os.listdir(".")
def nested(): return "nested.txt"
def hidden(): return "hidden.txt"
def choose(text): return text
def each(function): function("callback.txt")
def newest(parts): return max(glob.glob("/".join(parts) + "*"), key=os.path.getmtime)
def golden(parts): return newest(parts) + "/golden"
def beside(path): return os.path.join(os.path.dirname(path), "beside")
def write(name):
    with open(name, "w") as f: f.write("y")
"""
    run = examine({"hw.py": student}, tests)  # type: ignore[arg-type]
    assert set(run.short().values()) == {"passed"}, [
        (name, run.detail(name)) for name, verdict in run.short().items() if verdict != "passed"
    ]


def test_closed_folder_does_not_stop_the_next_examiner(tmp_path: Path) -> None:
    """One that took over the tests that were left read the folder that student code had closed, and
    failed: a failure of ours."""
    from sealmark_examiner.examiner import forged, shadows

    gone = str(tmp_path / "closed")
    assert not shadows(gone)
    assert not forged(gone)
