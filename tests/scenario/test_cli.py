# SPDX-License-Identifier: Apache-2.0
"""The command line without any machine: help, complaints, statuses, images, the doctor."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from support import PROGRAM, ROOT, Sealmark, make_image

USAGE = 2
OURS = 3

# arguments, and what the complaint must hold: the thing that is wrong, and the cure
COMPLAINTS = [
    (["grade"], ["TESTS is missing", "TESTS SUBMISSIONS", "sealmark grade --help"]),
    (["grade", "tests"], ["SUBMISSIONS is missing"]),
    (["grad"], ['unknown command "grad"', "sealmark grade"]),
    (["gradex", "x"], ['unknown command "gradex"', "sealmark grade"]),
    (["nonsense"], ['unknown command "nonsense"', "sealmark --help"]),
    (["--memory"], ["unknown option --memory before a command", "sealmark --help"]),
    (["sandbox"], ["sandbox needs a command of its own", "sandbox run"]),
    (["sandbox", "rn"], ['unknown command "sandbox rn"', "sealmark sandbox run"]),
    (["sandbx", "run"], ['unknown command "sandbx"', "sealmark sandbox run"]),
    (["sandbox", "delete", "x"], ['"sandbox delete"', "did you mean: sealmark sandbox rm"]),
    (["keys", "delete", "x"], ["did you mean: sealmark keys revoke"]),
    (["image", "list"], ["did you mean: sealmark image ls"]),
    (["ps"], ["did you mean: sealmark sandbox ps"]),
    (["image"], ["image needs a command of its own", "image ls"]),
    (["image", "lss"], ["sealmark image ls"]),
    (["image", "ls", "x"], ['unexpected argument "x"', "takes none"]),
    (["image", "show"], ["NAME[@VERSION] is missing"]),
    (["image", "show", "a", "b"], ['unexpected argument "b"', "takes only NAME[@VERSION]"]),
    (["image", "show", "nonsuch"], ["nonsuch", "there is: default", "sealmark image ls"]),
    (["image", "show", "../x"], ['"../x"', "NAME, NAME:TAG or NAME@VERSION"]),
    (["image", "show", "default@7"], ["default@7", "there is: default"]),
    (["image", "ls", "--jsn"], ["unknown option --jsn", "did you mean --json?"]),
    (["image", "ls", "--json=1"], ["--json takes no value"]),
    (["sandbox", "run"], ["COMMAND is missing", "[OPTION]... -- COMMAND"]),
    (["sandbox", "run", "--memroy", "1G", "--", "true"], ["--memroy", "did you mean --memory?"]),
    (["sandbox", "run", "--memory", "--", "true"], ["--memory needs a value", "--memory 1G"]),
    (["sandbox", "run", "--memory", "much", "true"], ['"much" is not a size', "--memory 1G"]),
    (["sandbox", "run", "--memory", "4M", "true"], ["4M is out of range", "from 32M"]),
    (["sandbox", "run", "--timeout", "0", "true"], ["0 is out of range", "from 1ms"]),
    (["sandbox", "run", "--timeout", "soon", "true"], ['"soon" is not a time', "--timeout 10s"]),
    (["sandbox", "run", "--cpu-time", "-1", "true"], ["--cpu-time", "--cpu-time 5s"]),
    (["sandbox", "run", "--processes", "0", "true"], ["0 is out of range", "from 1 to"]),
    (["sandbox", "run", "--user", "root", "true"], ['"root" is not a user', "UID or UID:GID"]),
    (["sandbox", "run", "--require-isolation", "kernal", "true"], ['"kernal"', "kernel or"]),
    (["sandbox", "run", "--env", "X", "true"], ['--env: "X"', "NAME=VALUE"]),
    (["sandbox", "run", "--env", "=x", "true"], ['--env: "=x"', "NAME=VALUE"]),
    (["sandbox", "run", "--cwd", "tmp", "true"], ['--cwd: "tmp"', "absolute path"]),
    (["sandbox", "run", "--file", "a", "true"], ['--file: "a"', "SOURCE:TARGET"]),
    (["sandbox", "run", "--file", "gone:/x", "true"], ["--file: gone", "No such file"]),
    (["sandbox", "run", "--file", "/dev/null:/x", "true"], ["neither a file nor a directory"]),
    (["sandbox", "run", "--image", "nonsuch", "true"], ["image nonsuch", "there is: default"]),
    (
        ["sandbox", "run", "--image", "A/B", "true"],
        ['image "A/B"', "NAME, NAME:TAG or NAME@VERSION"],
    ),
    (["doctor", "now"], ['unexpected argument "now"', "takes none"]),
    (["setup", "--imge", "default"], ["--imge", "did you mean --image?"]),
    (["help", "nonsense"], ['unknown command "nonsense"']),
]


@pytest.mark.parametrize(("args", "says"), COMPLAINTS, ids=lambda v: " ".join(v)[:50])
def test_complaints(sealmark: Sealmark, args: list[str], says: list[str]) -> None:
    done = sealmark.run(*args)
    text = done.stderr.decode()
    assert done.returncode == USAGE
    assert done.stdout == b""
    assert text.startswith("sealmark: ")
    for part in says:
        assert part in text


def test_no_command_shows_what_there_is(sealmark: Sealmark) -> None:
    done = sealmark.run()
    assert done.returncode == USAGE
    assert b"usage: sealmark" in done.stderr
    assert b"sandbox run" in done.stderr
    assert done.stdout == b""


def test_version(sealmark: Sealmark) -> None:
    done = sealmark.run("--version")
    assert done.returncode == 0
    assert re.fullmatch(rb"sealmark \d+\.\d+\.\d+\n", done.stdout)


def commands(sealmark: Sealmark) -> list[str]:
    rows = sealmark.run("help", "--tables").stdout.decode().splitlines()
    return [row.split("\t")[1] for row in rows if row.startswith("command\t")]


def test_help_of_every_command(sealmark: Sealmark) -> None:
    names = commands(sealmark)
    assert {"grade", "sandbox run", "image ls", "image show", "doctor", "setup"} <= set(names)
    overview = sealmark.run("--help")
    assert overview.returncode == 0
    for name in names:
        assert f"  {name} " in overview.stdout.decode()
        texts = [
            sealmark.run(*name.split(), "--help"),
            sealmark.run(*name.split(), "-h"),
            sealmark.run("help", *name.split()),
        ]
        for text in texts:
            assert text.returncode == 0
            assert text.stderr == b""
            assert text.stdout == texts[0].stdout
            assert text.stdout.startswith(f"usage: sealmark {name}".encode())
            assert b"\nexamples:\n" in text.stdout
            assert max(map(len, text.stdout.decode().splitlines())) <= 80


def test_help_of_a_group(sealmark: Sealmark) -> None:
    for args in (["help", "image"], ["image", "--help"]):
        done = sealmark.run(*args)
        assert done.returncode == 0
        assert b"image ls" in done.stdout
        assert b"sandbox run" not in done.stdout


def test_options_of_the_command_are_not_ours(sealmark: Sealmark) -> None:
    """What follows COMMAND is its own: -h there is no wish for help, --bad no complaint."""
    done = sealmark.run("sandbox", "run", "--image", "nonsuch", "ls", "-h", "--bad")
    assert done.returncode == USAGE
    assert b"nonsuch" in done.stderr
    assert b"usage:" not in done.stdout


def test_full_output_device_is_a_failure(sealmark: Sealmark) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE, env=sealmark.environment()
        )
    assert done.returncode == OURS
    assert b"could not write" in done.stderr


def test_closed_pipe_is_quiet(sealmark: Sealmark) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [PROGRAM, "--help"], stdout=write, stderr=subprocess.PIPE, env=sealmark.environment()
    )
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == b""


def test_closed_descriptors(sealmark: Sealmark) -> None:
    """A file opened later must not become somebody's standard output."""
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" image ls <&- >&- 2>&-', PROGRAM],
        env=sealmark.environment(),
    )
    assert done.returncode == 0


@pytest.mark.parametrize("home", ["relative/home", "./x"])
def test_relative_home(sealmark: Sealmark, home: str) -> None:
    done = sealmark.run("image", "ls", env={"SEALMARK_HOME": home})
    assert done.returncode == USAGE
    assert b"SEALMARK_HOME=" in done.stderr
    assert b"absolute path" in done.stderr


# --- images -----------------------------------------------------------------------------------


def test_image_ls(sealmark: Sealmark) -> None:
    make_image(sealmark.home, "default", 12)
    make_image(sealmark.home, "tiny", 1)
    done = sealmark.run("image", "ls")
    assert done.returncode == 0
    rows = [line.split()[:2] for line in done.stdout.decode().splitlines()[1:]]
    assert rows == [["default", "12"], ["default", "1"], ["tiny", "1"]]
    images = json.loads(sealmark.run("image", "ls", "--json").stdout)
    assert [(i["name"], i["version"]) for i in images] == [
        ("default", "12"),
        ("default", "1"),
        ("tiny", "1"),
    ]
    assert images[0]["packages"] == 2


def test_image_ls_without_images(sealmark: Sealmark, tmp_path: Path) -> None:
    env = {"SEALMARK_HOME": str(tmp_path / "none")}
    done = sealmark.run("image", "ls", env=env)
    assert done.returncode == 0
    assert b"sealmark setup" in done.stdout
    assert sealmark.run("image", "ls", "--json", env=env).stdout == b"[]\n"
    done = sealmark.run("image", "show", "default", env=env)
    assert done.returncode == USAGE
    assert b"sealmark setup" in done.stderr


def test_damaged_image_is_told(sealmark: Sealmark) -> None:
    (make_image(sealmark.home, "broken") / "manifest.json").write_text("{")
    done = sealmark.run("image", "ls")
    assert done.returncode == 1
    assert b"broken" in done.stdout
    assert b"damaged" in done.stdout
    done = sealmark.run("image", "show", "broken")
    assert done.returncode == OURS
    assert b"manifest.json:1:" in done.stderr


def test_image_show(sealmark: Sealmark) -> None:
    done = sealmark.run("image", "show", "default@1", "--verify")
    assert done.returncode == 0
    assert b"default@1" in done.stdout
    assert b"(verified)" in done.stdout
    assert b"python3 3.13.5-1" in done.stdout
    image = json.loads(sealmark.run("image", "show", "default", "--json").stdout)
    assert image["packages"] == {"gcc": "14.2.0-1", "python3": "3.13.5-1"}
    assert image["env"] == ["PATH=/usr/bin:/bin"]
    assert "verified" not in image


def test_changed_image_is_found(sealmark: Sealmark) -> None:
    rootfs = sealmark.home / "images/default/1/rootfs.erofs"
    rootfs.write_bytes(b"no file systeM")
    assert sealmark.run("image", "show", "default").returncode == 0
    done = sealmark.run("image", "show", "default", "--verify")
    assert done.returncode == OURS
    assert b"is not what was built" in done.stderr
    assert b"sealmark setup --force --image default" in done.stderr


# --- the doctor -------------------------------------------------------------------------------


def test_doctor_names_what_is_missing(sealmark: Sealmark, tmp_path: Path) -> None:
    env = {"SEALMARK_HOME": str(tmp_path / "none")}
    done = sealmark.run("doctor", env=env)
    text = done.stdout.decode()
    assert done.returncode == 1
    assert "cannot grade yet" in text
    assert "sealmark setup" in text.split("to do")[1]
    report = json.loads(sealmark.run("doctor", "--json", env=env).stdout)
    assert report["can_grade"] is False
    missing = {f["name"] for f in report["findings"] if f["state"] == "missing"}
    assert {"guest kernel", "default image"} <= missing
    for finding in report["findings"]:
        assert finding["state"] != "missing" or finding["cure"]
    # the scripted engine of the tests is no isolation
    assert "fake" not in {f["name"] for f in report["findings"]}


def test_doctor_marks_by_character_set(sealmark: Sealmark) -> None:
    assert "\u2713" in sealmark.run("doctor").stdout.decode()
    plain = sealmark.run("doctor", env={"LC_ALL": "C"}).stdout
    assert plain.isascii()
    assert b"\n  ok " in plain


# --- setup ------------------------------------------------------------------------------------


def test_setup_becomes_the_setup_program(sealmark: Sealmark, tmp_path: Path) -> None:
    """Its arguments arrive one by one, without a shell in between, and its status is the status."""
    libexec = tmp_path / "libexec"
    libexec.mkdir()
    script = libexec / "setup"
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
    script.chmod(0o755)
    done = sealmark.run(
        "setup",
        "--kernel",
        "--image",
        "a b;$(id)",
        "--image=c",
        "--force",
        env={"SEALMARK_LIBEXEC": str(libexec)},
    )
    assert done.returncode == 7
    expected = ["--kernel", "--image", "a b;$(id)", "--image", "c", "--force"]
    assert done.stdout.decode().splitlines() == expected


def test_setup_that_is_not_there(sealmark: Sealmark, tmp_path: Path) -> None:
    done = sealmark.run("setup", env={"SEALMARK_LIBEXEC": str(tmp_path)})
    assert done.returncode == OURS
    assert b"SEALMARK_LIBEXEC" in done.stderr


# --- completion -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["sandb"], ["sandbox"]),
        (["sandbox", "ex"], ["exec", "extend"]),
        (["sandbox", "exec", "--no"], ["--no-stdin"]),
        (["sandbox", "exec", "box", "--cw"], ["--cwd"]),
        (["image", "ls", "--lo"], ["--local"]),
        (["sandbox", "cp", "REA"], ["README.md"]),
        (["nonsense", "--x"], []),
    ],
    ids=lambda v: " ".join(v),
)
def test_completion(sealmark: Sealmark, words: list[str], found: list[str]) -> None:
    script = """
        source completions/sealmark.bash
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _sealmark
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "-c", script, "bash", str(PROGRAM), *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=sealmark.environment(),
    )
    assert done.stderr == ""
    assert done.stdout.split() == found


# --- the manual -----------------------------------------------------------------------------------


def test_manual_names_every_command_and_option(sealmark: Sealmark) -> None:
    pages = ("sealmark.1", "sealmark-sandbox.1")
    manual = "".join((ROOT / "man" / page).read_text() for page in pages)
    for row in sealmark.run("help", "--tables").stdout.decode().splitlines():
        kind, command, name, letter, argument, _ = [*row.split("\t"), "", ""][:6]
        if kind == "key":
            continue
        if kind == "common":
            command = "Options of all"
        section = re.search(rf"^\.Ss {command}$(.*?)^\.S[hs] ", manual, re.M | re.S)
        assert section, f"no manual page has a section `.Ss {command}`"
        if kind == "command":
            continue
        words = [rf"Fl \\-{name[2:]}"]
        if letter:
            words.insert(0, f"Fl {letter}")
        line = r"^\.It " + r" , ".join(words) + (rf" Ar {re.escape(argument)}" if argument else "")
        assert re.search(line + "$", section[1], re.M), f"{command}: no line {line}"
    documented = re.findall(r"^\.It (?:Fl \w , )?Fl \\-(\S+)", manual, re.M)
    tables = sealmark.run("help", "--tables").stdout.decode()
    for name in documented:
        assert f"\t--{name}\t" in tables or name in ("help", "version"), f"--{name} is no option"


def test_manual_names_every_key(sealmark: Sealmark) -> None:
    manual = (ROOT / "man/sealmark-assignment.5").read_text()
    rows = sealmark.run("help", "--tables").stdout.decode().splitlines()
    keys = [row.split("\t")[1] for row in rows if row.startswith("key\t")]
    assert "limits.cpu" in keys
    documented = re.findall(r"^\.It Ic (\S+) :", manual, re.M)
    assert sorted(documented) == sorted(keys)


@pytest.mark.parametrize(
    ("file", "base"),
    [
        (None, "http://127.0.0.1:8080"),
        ("listen: 127.0.0.1:9000\n", "http://127.0.0.1:9000"),
        ("listen: 0.0.0.0:8443\ntls: {cert: /c.pem, key: /k.pem}\n", "https://localhost:8443"),
        ("publicUrl: https://sealmark.example\n", "https://sealmark.example"),
    ],
)
def test_the_owners_link_is_for_the_server_of_the_file(
    sealmark: Sealmark, file: str | None, base: str
) -> None:
    if file:
        (sealmark.home / "sealmark.yaml").write_text(file)
    done = sealmark.run("owner", "reset")
    assert done.returncode == 0
    assert done.stdout.decode().startswith(f"{base}/setup?token=")


def test_no_owners_link_is_guessed_for_a_socket(sealmark: Sealmark) -> None:
    (sealmark.home / "sealmark.yaml").write_text("listen: unix:/run/sealmark.sock\n")
    done = sealmark.run("owner", "reset")
    assert done.returncode == USAGE
    assert b"--url" in done.stderr
    assert sealmark.run("owner", "reset", "--url", "https://s.example").returncode == 0
