# SPDX-License-Identifier: Apache-2.0
"""Lists that come in pages."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

from .._records import Json, optional_text, records

T = TypeVar("T")


class Page(Generic[T]):
    """A page of a list, and by iterating over it all entries from its first on."""

    def __init__(
        self,
        fetch: Callable[[str | None], Json],
        make: Callable[[Json], T],
        answer: Json,
    ) -> None:
        self._fetch = fetch
        self._make = make
        self.data: list[T] = [make(entry) for entry in records(answer.get("data"), "the list")]
        """The entries of this page."""
        self.next_cursor: str | None = optional_text(answer, "nextCursor")

    @property
    def has_more(self) -> bool:
        """Whether there is another page."""
        return self.next_cursor is not None

    def next_page(self) -> Page[T] | None:
        """The page after it, if there is one."""
        if self.next_cursor is None:
            return None
        return Page(self._fetch, self._make, self._fetch(self.next_cursor))

    def __iter__(self) -> Generator[T, None, None]:
        page: Page[T] | None = self
        seen: set[str] = set()
        while page is not None:
            for entry in page.data:
                yield entry
            # a server that names the same page for ever is not followed for ever
            if page.next_cursor is None or page.next_cursor in seen:
                return
            seen.add(page.next_cursor)
            page = page.next_page()

    def to_list(self, limit: int = 10_000) -> list[T]:
        """At most `limit` entries."""
        out: list[T] = []
        for entry in self:
            if len(out) >= limit:
                break
            out.append(entry)
        return out
