# SPDX-License-Identifier: Apache-2.0
"""Lists that come in pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar

from .._records import Json, optional_text, records

T = TypeVar("T")


class AsyncPage(Generic[T]):
    """A page of a list, and by iterating over it all entries from its first on."""

    def __init__(
        self,
        fetch: Callable[[str | None], Awaitable[Json]],
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

    async def next_page(self) -> AsyncPage[T] | None:
        """The page after it, if there is one."""
        if self.next_cursor is None:
            return None
        return AsyncPage(self._fetch, self._make, await self._fetch(self.next_cursor))

    async def __aiter__(self) -> AsyncGenerator[T, None]:
        page: AsyncPage[T] | None = self
        seen: set[str] = set()
        while page is not None:
            for entry in page.data:
                yield entry
            # a server that names the same page for ever is not followed for ever
            if page.next_cursor is None or page.next_cursor in seen:
                return
            seen.add(page.next_cursor)
            page = await page.next_page()

    async def to_list(self, limit: int = 10_000) -> list[T]:
        """At most `limit` entries."""
        out: list[T] = []
        async for entry in self:
            if len(out) >= limit:
                break
            out.append(entry)
        return out
