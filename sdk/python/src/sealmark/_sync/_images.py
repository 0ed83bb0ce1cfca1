# SPDX-License-Identifier: Apache-2.0
"""Images: built, named, looked up."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any

from .._archive import Context, Links
from .._errors import (
    BuildError,
    ConnectionError,
    SealmarkError,
    error_of_object,
    invalid_answer,
)
from .._protocol import Request, change, pause, segment, without_none
from .._records import Image, Json, LogLine, integer, text
from ._page import Page
from ._transport import Transport
from ._wait import call, in_thread, sleep

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UNDER_WAY = ("queued", "building")
LOG_SILENCE_S = 600.0
POLL_S = 1.0


class Images:
    """`runtime.images`. A reference is an id, `name`, `name:tag` or `name@version`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self,
        *,
        name: str | None = None,
        recipe: Mapping[str, Any] | None = None,
        dockerfile: str | None = None,
        files: Mapping[str, str] | None = None,
        context_dir: str | os.PathLike[str] | None = None,
        links: Links = "refuse",
        build_args: Mapping[str, str] | None = None,
        tags: Sequence[str] | None = None,
        labels: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        **more: Any,
    ) -> Image:
        """Asks for a build and does not wait for it.

        Give one source: `recipe` with any of base, apt, pip, npm, commands, files, env and
        workdir, or the text of a `dockerfile`, with the `files` that it copies, or the folder
        `context_dir` that has them. Links in it raise ArchiveError, or are left out with
        `links="skip"`. What is given beyond these is passed on as it is.
        """
        if context_dir is not None:
            more["context"] = self._send_context(context_dir, links)
        body = without_none(
            {
                "name": name,
                "recipe": dict(recipe) if recipe is not None else None,
                "dockerfile": dockerfile,
                "files": dict(files) if files is not None else None,
                "buildArgs": dict(build_args) if build_args is not None else None,
                "tags": list(tags) if tags is not None else None,
                "labels": dict(labels) if labels is not None else None,
                **more,
            }
        )
        request = change("POST", "/v1/images", body, key=idempotency_key)
        return Image.of(self._transport.json(request))

    def _send_context(self, folder: str | os.PathLike[str], links: Links) -> Json:
        """Sends the pieces of a folder that the server does not have."""
        context = in_thread(Context, folder, links)
        with context.file:
            answer = self._transport.json(
                change("POST", "/v1/images/context/missing", {"digests": context.pieces})
            )
            missing = answer.get("missing")
            if not isinstance(missing, list):
                raise invalid_answer("The missing pieces are no list.")
            for number, digest in enumerate(context.pieces):
                if digest in missing:
                    path = f"/v1/images/context/{digest}"
                    piece = in_thread(context.read, number)
                    self._transport.json(Request("PUT", path, content=piece))
        archive = {"sha256": context.sha256, "size": context.size, "chunks": context.pieces}
        return {"archive": archive, "files": context.files}

    def build(
        self, *, on_log: Callable[[LogLine], object] | None = None, **source: Any
    ) -> Image:
        """Builds an image (arguments as `create`) and waits until it is ready.

        `on_log` gets each line of the log. Raises BuildError when the build fails.
        """
        image = self.create(**source)
        if on_log is not None:
            with closing(self.follow_logs(image.id)) as lines:
                for line in lines:
                    call(on_log, line)
            image = self.get(image.id)
        while image.state in _UNDER_WAY:
            sleep(POLL_S)
            image = self.get(image.id)
        if image.state != "ready":
            raise BuildError(
                f"The image could not be built: {image.error or image.state}",
                code="image_build_failed",
                details={"image": image.info},
                hint=f"images.logs({image.id!r}) has the whole log.",
            )
        return image

    def follow_logs(self, image_id: str, *, after: int = 0) -> Generator[LogLine, None, None]:
        """The lines of a build's log after line `after`, until it is done."""
        fruitless = 0
        while True:
            before, failure, goes_on = after, None, False
            request = Request(
                "GET",
                f"/v1/images/{segment(image_id)}/logs",
                query={"after": after, "follow": True},
                accept="application/x-ndjson",
                timeout_s=LOG_SILENCE_S,
            )
            try:
                with closing(self._transport.lines(request)) as lines:
                    for event in lines:
                        kind = text(event, "type")
                        if kind == "line":
                            line = LogLine.of(event)
                            if line.seq > after:
                                after = line.seq
                                yield line
                        elif kind == "continue":
                            after, goes_on = max(after, integer(event, "after")), True
                            break
                        elif kind == "error":
                            raise error_of_object(event.get("error"), 0)
                        elif kind == "done":
                            return
            except SealmarkError as error:
                if not error.retryable:
                    raise
                failure = error
            if goes_on or after > before:
                fruitless = 0
                continue
            if fruitless >= self._transport.settings.max_retries:
                raise failure or ConnectionError(
                    "The log ends before the build does.", code="connection_error"
                )
            sleep(pause(failure or SealmarkError(""), fruitless) or 0)
            fruitless += 1

    def logs(self, image_id: str, *, after: int = 0) -> Json:
        """The log so far, as `{"lines": [...], "nextAfter": n, "done": ...}`."""
        return self._transport.json(
            Request("GET", f"/v1/images/{segment(image_id)}/logs", query={"after": after})
        )

    def get(self, image_id: str) -> Image:
        """One version, by its id. Raises NotFoundError (`image_not_found`)."""
        return Image.of(
            self._transport.json(Request("GET", f"/v1/images/{segment(image_id)}"))
        )

    def resolve(self, reference: str) -> Image:
        """What a reference names now. Raises NotFoundError (`image_not_found`)."""
        return Image.of(
            self._transport.json(
                Request("GET", "/v1/images/resolve", query={"ref": reference})
            )
        )

    def list(
        self, *, name: str | None = None, state: str | None = None, limit: int | None = None
    ) -> Page[Image]:
        """Versions, the newest first; iterating over it fetches further pages of `limit`."""

        def fetch(cursor: str | None) -> Json:
            query = {"name": name, "state": state, "limit": limit, "cursor": cursor}
            return self._transport.json(Request("GET", "/v1/images", query={**query}))

        return Page(fetch, Image.of, fetch(None))

    def tag(self, reference: str, tag: str) -> Image:
        """Lets `name:tag` name this version."""
        return self._named(reference, "tag", tag)

    def untag(self, reference: str, tag: str) -> Image:
        """Takes the tag away."""
        return self._named(reference, "untag", tag)

    def _named(self, reference: str, verb: str, tag: str) -> Image:
        path = f"/v1/images/{segment(self._id(reference))}:{verb}"
        return Image.of(self._transport.json(change("POST", path, {"tag": tag})))

    def delete(self, reference: str) -> None:
        """Removes one version with its tags."""
        path = f"/v1/images/{segment(self._id(reference))}:delete"
        self._transport.json(change("POST", path, {}))

    def _id(self, reference: str) -> str:
        if _UUID.fullmatch(reference):
            return reference
        return (self.resolve(reference)).id
