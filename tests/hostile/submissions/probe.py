# Runs in a machine: looks for a word in all that the process can read. Prints where it was.
#
# The word is a fixed part and eight digits, and only the fixed part stands here: so what is found
# is the word itself. One copy is put into a file and one into this process's memory by the probe:
# they must be found, else the search does not work.
import os
import re
import sys

WORD = re.compile(rb"quillwort-(\d{8})")
PLANTED = b"quillwort-" + b"12345678"[:8]
READ_MOST = 8 << 20
SKIP = ("/usr/lib", "/usr/share", "/usr/bin", "/usr/include", "/usr/sbin", "/usr/libexec")
ENDLESS = ("/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/proc/kmsg", "/dev/console")


def words(data):
    return {match.group(1).decode() for match in WORD.finditer(data)}


def read(path, most=READ_MOST):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        data = b""
        while len(data) < most:
            piece = os.read(fd, 1 << 20)
            if not piece:
                break
            data += piece
        return data
    finally:
        os.close(fd)


def search_files(found):
    for folder, folders, files in os.walk("/", topdown=True):
        if folder.startswith(SKIP) or (folder.startswith("/proc/") and folder.count("/") > 1):
            folders[:] = []
            continue
        for name in files + folders:
            found.setdefault(f"name {folder}/{name}", set()).update(words(os.fsencode(name)))
        for name in files:
            path = os.path.join(folder, name)
            if path in ENDLESS:
                continue
            try:
                found.setdefault(path, set()).update(words(read(path)))
            except (OSError, ValueError):
                continue


def search_memory(found, pid):
    with open(f"/proc/{pid}/maps") as stream:
        ranges = [line.split()[0].split("-") for line in stream if " r" in line]
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for start, end in ranges:
            at, last = int(start, 16), int(end, 16)
            while at < last:
                try:
                    memory.seek(at)
                    data = memory.read(min(4 << 20, last - at))
                except (OSError, ValueError, OverflowError):
                    break
                if not data:
                    break
                found.setdefault(f"memory of {pid}", set()).update(words(data))
                at += len(data)


def search_processes(found):
    seen = set()
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
    # also those that the listing hides
    for pid in [*pids, *map(str, range(1, 400)), "self"]:
        for name in ("environ", "cmdline", "maps", "status", "stack", "io", "mountinfo", "auxv"):
            try:
                found.setdefault(f"{pid} {name}", set()).update(words(read(f"/proc/{pid}/{name}")))
                seen.add(pid)
            except OSError:
                continue
        for what in ("fd", "map_files", "cwd", "root", "task"):
            try:
                entries = os.listdir(f"/proc/{pid}/{what}")
            except OSError:
                continue
            for entry in entries:
                path = f"/proc/{pid}/{what}/{entry}"
                try:
                    if os.path.isfile(path):
                        found.setdefault(path, set()).update(words(read(path)))
                except (OSError, ValueError):
                    continue
        try:
            search_memory(found, pid)
        except OSError:
            continue
    return seen


def search():
    """(where -> words) for what must not be there, and a text on what does not work."""
    global held
    with open("/tmp/planted", "wb") as stream:
        stream.write(PLANTED)
    held = PLANTED + b"."
    found = {}
    search_files(found)
    seen = search_processes(found)
    for where in ("/tmp/planted", "memory of self"):
        if "12345678" not in found.get(where, ()):
            if where == "memory of self" and where not in found and os.getuid():
                continue  # this process may not read even its own: then no other may, either
            return {}, f"the search does not work: {where}, {len(found)} places, {seen}"
    bad = {where: sorted(all_ - {"12345678"}) for where, all_ in found.items()}
    return {where: some for where, some in bad.items() if some}, ""


if __name__ == "__main__":
    print(*search(), file=sys.stderr)
