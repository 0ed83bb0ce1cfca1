#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the includes of the C code against the order of the folders: arrows point down only.

A folder may use the folders of lower levels, and its neighbours as long as that makes no circle.
`src/wire` is shared with the guest, so it stands alone; the agent uses only it.
"""

import re
import sys
from pathlib import Path

LEVELS = [
    {"base"},
    {"wire"},
    {"engine", "jail", "monitor"},
    {"sandbox", "image", "meter", "store"},
    {"grade", "gradebook", "intake"},
    {"api"},
    {"cli"},
]
ONLY = {"wire": {"wire"}, "agent": {"agent", "wire"}, "base": {"base"}}
LEVEL_OF = {name: level for level, names in enumerate(LEVELS) for name in names}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def folder_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).parts
    return parts[1] if parts[0] == "src" else parts[0]


def resolve(name: str, beside: Path, root: Path) -> Path | None:
    for base in (beside.parent, root / "src", root):
        candidate = (base / name).resolve()
        if candidate.is_file() and candidate.is_relative_to(root):
            return candidate
    return None


def find_circle(edges: dict[str, set[str]]) -> list[str] | None:
    """A circle in the graph of folders, as the names along it, or None."""
    done: set[str] = set()

    def visit(node: str, trail: list[str]) -> list[str] | None:
        if node in trail:
            return [*trail[trail.index(node) :], node]
        if node in done:
            return None
        for target in sorted(edges.get(node, ())):
            circle = visit(target, [*trail, node])
            if circle:
                return circle
        done.add(node)
        return None

    for start in sorted(edges):
        circle = visit(start, [])
        if circle:
            return circle
    return None


def check(root: Path) -> list[str]:
    root = root.resolve()
    complaints = []
    edges: dict[str, set[str]] = {}
    files = sorted(p for top in ("src", "agent") for p in (root / top).rglob("*.[ch]"))
    for path in files:
        here = folder_of(path, root)
        if here != "agent" and here not in LEVEL_OF:
            complaints.append(f"{path.relative_to(root)}: the folder {here} is not in LEVELS")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            where = f"{path.relative_to(root)}:{number}"
            target = resolve(match[1], path, root)
            if target is None:
                complaints.append(f'{where}: "{match[1]}" is no file of ours')
                continue
            there = folder_of(target, root)
            if there == here:
                continue
            edges.setdefault(here, set()).add(there)
            if here in ONLY and there not in ONLY[here]:
                allowed = ", ".join(sorted(ONLY[here]))
                complaints.append(f"{where}: {here} may include only {allowed}, not {there}")
            elif here not in ONLY and LEVEL_OF.get(there, 99) > LEVEL_OF[here]:
                complaints.append(f"{where}: {here} is below {there} and may not include it")
    if not files:
        complaints.append(f"{root}: no C files found")
    circle = find_circle(edges)
    if circle:
        complaints.append("folders include each other in a circle: " + " -> ".join(circle))
    return complaints


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent
    complaints = check(root)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
