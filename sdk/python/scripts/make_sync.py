# SPDX-License-Identifier: Apache-2.0
"""Makes the blocking client (src/sealmark/_sync) of the asynchronous one (src/sealmark/_async).

    python3 scripts/make_sync.py           writes it
    python3 scripts/make_sync.py --check   says whether it is in step; exit status 1 if not

Only `_wait.py` is written twice by hand: it is where the two differ. Everything else is the
same text without the words that make it asynchronous.
"""

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "sealmark"
BY_HAND = {"_wait.py"}

WORDS = {
    "aclosing": "closing",
    "aclose": "close",
    "anext": "next",
    "aiter_raw": "iter_raw",
    "AsyncIterator": "Iterator",
    "AsyncClient": "Client",
    "AsyncHTTPTransport": "HTTPTransport",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
}


def blocking(text: str) -> str:
    """The text without what makes it asynchronous."""
    text = text.replace(
        "The asynchronous client; scripts/make_sync.py makes the blocking one of it.",
        "The blocking client, made by scripts/make_sync.py of the asynchronous one: change that.",
    )
    text = re.sub(r"\basync (def|with|for)\b", r"\1", text)
    text = re.sub(r"\bawait ", "", text)
    text = re.sub(r"Awaitable\[((?:[^\[\]]|\[[^\[\]]*\])*)\]", r"\1", text)
    text = re.sub(r"AsyncGenerator\[(.+), None\]", r"Generator[\1, None, None]", text)
    text = text.replace("AsyncGenerator", "Generator")
    text = re.sub(r", Awaitable\b|\bAwaitable, ", "", text)
    for word, other in WORDS.items():
        text = re.sub(rf"\b{word}\b", other, text)
    text = re.sub(r"\bAsync([A-Z]\w*)", r"\1", text)
    return sort_imports(text)


def sort_imports(text: str) -> str:
    """Names that are other words now, in their order again."""

    def sort(found: re.Match[str]) -> str:
        names = [name.strip() for name in found[2].split(",") if name.strip()]
        names.sort(key=lambda n: (not n.isupper(), not n[0].isupper(), n.lower()))
        line = f"{found[1]}{', '.join(names)}\n"
        return line if len(line) <= 101 else found[0]

    return re.sub(r"^(from [\w.]+ import )([^(\n]+)\n", sort, text, flags=re.MULTILINE)


def main() -> int:
    check = "--check" in sys.argv[1:]
    wrong = []
    sources = {p.name: p for p in (PACKAGE / "_async").glob("*.py") if p.name not in BY_HAND}
    for name, path in sorted(sources.items()):
        target = PACKAGE / "_sync" / name
        made = blocking(path.read_text())
        if target.is_file() and target.read_text() == made:
            continue
        wrong.append(f"{target.relative_to(PACKAGE)} is not in step with _async/{name}")
        if not check:
            target.write_text(made)
    for path in (PACKAGE / "_sync").glob("*.py"):
        if path.name not in sources and path.name not in BY_HAND:
            wrong.append(f"{path.relative_to(PACKAGE)} is made of nothing")
    if check and wrong:
        print("\n".join(wrong), "run scripts/make_sync.py", sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
