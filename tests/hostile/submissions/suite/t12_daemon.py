# A daemon that would go on for a minute; the later tests tell whether it is still there.
import os
import subprocess
import time


def alive():
    found = []
    for pid in os.listdir("/proc"):
        try:
            with open(f"/proc/{pid}/cmdline") as stream:
                if "daemon-of-t12" in stream.read() and int(pid) != os.getpid():
                    found.append(pid)
        except (OSError, ValueError):
            continue
    return found


def add(a, b):
    if a == 1000003:
        subprocess.run(["setsid", "bash", "-c", "(exec -a daemon-of-t12 sleep 60) &"])
        deadline = time.monotonic() + 2
        while not alive():
            if time.monotonic() > deadline:
                return "no daemon was started"
    elif alive():
        return f"the daemon lives: {alive()}"
    return a + b
