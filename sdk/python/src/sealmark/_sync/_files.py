# SPDX-License-Identifier: Apache-2.0
"""Files of a sandbox."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO

from .._archive import UNPACKED_BYTES, Links, pack, unpack
from .._errors import ArchiveError, ConnectionError, NotFoundError, invalid_answer
from .._protocol import (
    PIECE_BYTES,
    Data,
    RemotePath,
    Request,
    change,
    data_bytes,
    mode_text,
    remote_path,
    segment,
    without_none,
)
from .._records import FileEntry, Json, boolean, integer, records, text
from ._transport import Transport
from ._wait import bounded, in_thread
from ._watches import EventName, Watch, Watches

READ_BYTES = 256 << 20
BYTES = "application/octet-stream"
ABORT_S = 5.0
BROKEN_OFF = (
    'Perhaps something in the folder may not be read (user="root" reads all), or it has more than '
    "48 levels."
)


def _digest(file: IO[bytes]) -> tuple[int, str]:
    """Size and SHA-256 of what is left of a file; it is at its begin afterwards."""
    digest = hashlib.sha256()
    size = 0
    while piece := file.read(PIECE_BYTES):
        digest.update(piece)
        size += len(piece)
    file.seek(0)
    return size, digest.hexdigest()


class Files:
    """`sandbox.files`. Paths are absolute; the rights are those of the sandbox's user."""

    def __init__(self, transport: Transport, sandbox_id: str) -> None:
        self._transport = transport
        self._base = f"/v1/sandboxes/{segment(sandbox_id)}"
        self.watches = Watches(transport, sandbox_id)

    def read(self, path: RemotePath, *, max_bytes: int = READ_BYTES) -> bytes:
        """The content of a file of at most `max_bytes` (256 MiB); `download` takes larger ones.

        Raises NotFoundError (`file_not_found`), ConflictError (`is_a_directory`),
        PermissionDeniedError, or ConnectionError (`answer_too_large`).
        """
        return self._transport.content(self._content(path), max_bytes)

    def read_text(
        self, path: RemotePath, *, encoding: str = "utf-8", max_bytes: int = READ_BYTES
    ) -> str:
        """The same as text. Raises UnicodeDecodeError for what is none."""
        return (self.read(path, max_bytes=max_bytes)).decode(encoding)

    def read_stream(self, path: RemotePath) -> Generator[bytes, None, None]:
        """The content in pieces as they come, of any length."""
        with closing(self._transport.pieces(self._content(path))) as pieces:
            for piece in pieces:
                yield piece

    def _content(self, path: RemotePath) -> Request:
        return Request(
            "GET", f"{self._base}/files/content", query={"path": remote_path(path)}, accept=BYTES
        )

    def write(self, path: RemotePath, data: Data, mode: int | None = None) -> None:
        """Writes a file whole or not at all, and the folders above it.

        `mode` is 0o644 if the file is new and nothing is given. More than 1 MiB goes up in
        pieces, and is checked there by its SHA-256.
        """
        content = data_bytes(data)
        if len(content) <= PIECE_BYTES:
            self._transport.json(
                change(
                    "PUT",
                    f"{self._base}/files/content",
                    query={"path": remote_path(path), "mode": mode_text(mode)},
                    content=content,
                )
            )
            return
        with tempfile.TemporaryFile(prefix="sealmark-") as file:
            in_thread(file.write, content)
            file.seek(0)
            self._write_file(path, file, mode)

    def _write_file(self, path: RemotePath, file: IO[bytes], mode: int | None) -> None:
        size, sha256 = in_thread(_digest, file)
        body = {
            "path": remote_path(path),
            "size": size,
            "sha256": sha256,
            "mode": mode_text(mode),
        }
        self._upload("/uploads", without_none(body), file)

    def _upload(self, route: str, body: Json, file: IO[bytes]) -> None:
        """Begin, pieces, commit; what is not finished is given up there too."""
        begun = self._transport.json(change("POST", self._base + route, body))
        step = integer(begun, "chunkBytes")
        if not 0 < step <= PIECE_BYTES:
            raise invalid_answer("The server wants pieces of a size that the API does not have.")
        upload = f"{self._base}{route}/{segment(text(begun, 'uploadId'))}"
        try:
            offset = 0
            while piece := in_thread(file.read, step):
                self._transport.json(
                    Request("PUT", upload, query={"offset": offset}, content=piece)
                )
                offset += len(piece)
            # unpacking takes as long as it takes
            self._transport.json(change("POST", upload + ":commit", {}, timeout_s=300.0))
        except BaseException:
            bounded(
                ABORT_S,
                lambda: self._transport.json(
                    change("POST", upload + ":abort", {}, timeout_s=ABORT_S, once=True)
                ),
            )
            raise

    def list(
        self,
        path: RemotePath = "/workspace",
        *,
        depth: int | None = None,
        glob: str | None = None,
        hidden: bool | None = None,
        limit: int | None = None,
    ) -> list[FileEntry]:
        """What is in a folder, `depth` levels (1; 32 with `glob`), at most `limit` (1000) entries.

        `glob` takes only what fits, where `**` is any number of folders; `hidden` takes names
        that begin with a dot too.
        """
        query = {
            "path": remote_path(path),
            "depth": depth,
            "glob": glob,
            "hidden": hidden,
            "limit": limit,
        }
        answer = self._transport.json(
            Request("GET", f"{self._base}/files/list", query={**query})
        )
        return [FileEntry.of(entry) for entry in records(answer.get("data"), "the folder")]

    def stat(self, path: RemotePath) -> FileEntry:
        """What a path is. Raises NotFoundError (`file_not_found`) if it is nothing."""
        answer = self._stat(path)
        if not boolean(answer, "exists", True):
            raise NotFoundError(f"{path} does not exist.", code="file_not_found", status=404)
        return FileEntry.of(answer)

    def exists(self, path: RemotePath) -> bool:
        """Whether there is anything of that name."""
        return boolean(self._stat(path), "exists", True)

    def _stat(self, path: RemotePath) -> Json:
        return self._transport.json(
            Request("GET", f"{self._base}/files/stat", query={"path": remote_path(path)})
        )

    def mkdir(self, path: RemotePath, *, parents: bool = True) -> None:
        """Makes a folder, and those above it."""
        self._change("mkdir", {"path": remote_path(path), "parents": parents})

    def remove(self, path: RemotePath, *, recursive: bool = False) -> bool:
        """Removes a file or an empty folder, with `recursive` a full one too; False: was none.

        Raises ConflictError (`directory_not_empty`).
        """
        answer = self._change("remove", {"path": remote_path(path), "recursive": recursive})
        return boolean(answer, "removed", True)

    def rename(
        self, source: RemotePath, target: RemotePath, *, overwrite: bool = False
    ) -> None:
        """Moves it. Raises ConflictError (`already_exists`) unless `overwrite`."""
        names = {"from": remote_path(source, "source"), "to": remote_path(target, "target")}
        self._change("rename", {**names, "overwrite": overwrite})

    def chmod(self, path: RemotePath, mode: int) -> None:
        """Sets the mode, as 0o755."""
        self._change("chmod", {"path": remote_path(path), "mode": mode_text(mode)})

    def _change(self, verb: str, body: Json) -> Json:
        return self._transport.json(change("POST", f"{self._base}/files:{verb}", body))

    def watch(
        self,
        path: RemotePath,
        *,
        recursive: bool = False,
        events: Sequence[EventName] | None = None,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        batch_ms: int | None = None,
        timeout_ms: int | None = None,
        max_watches: int | None = None,
        id: str | None = None,
    ) -> Watch:
        """Begins to watch a folder; iterate over the watch for what changes in it.

        Args:
            recursive: and all folders below it.
            events: what is wanted: create, write, remove, rename, chmod; by default all.
            include, exclude: patterns, without a slash for names, with one for paths below the
                folder, where `**` is any number of folders; folders that are excluded are not
                watched.
            batch_ms: changes are told together after so many milliseconds (50).
            timeout_ms: its end, in milliseconds (3,600,000); 0 for none but the sandbox's.
            max_watches: the most folders (1024).
            id: of your choice: a-z, 0-9 and -.

        Raises NotFoundError (`file_not_found`), ConflictError (`not_a_directory`),
        PermissionDeniedError, ServiceUnavailableError (`guest_busy`: 16 run already).
        """
        return self.watches.start(
            path,
            recursive=recursive,
            events=events,
            include=include,
            exclude=exclude,
            batch_ms=batch_ms,
            timeout_ms=timeout_ms,
            max_watches=max_watches,
            id=id,
        )

    def upload(
        self,
        local: str | os.PathLike[str],
        remote: RemotePath,
        *,
        links: Links = "refuse",
        user: str | None = None,
    ) -> None:
        """Copies a folder's content into the folder `remote`, or a file to the path `remote`.

        Modes are kept; owners are not. Links, devices and the like raise ArchiveError before
        anything is sent, or are left out with `links="skip"`. `user="root"` writes as root.
        """
        if not in_thread(os.path.isdir, local):
            with open(local, "rb") as file:
                mode = os.fstat(file.fileno()).st_mode & 0o777
                self._write_file(remote, file, mode)
            return
        with in_thread(pack, local, links) as archive:
            size = os.fstat(archive.fileno()).st_size
            if size > PIECE_BYTES:
                body = {"path": remote_path(remote, "remote"), "gzip": False, "user": user}
                self._upload("/files/archive/uploads", without_none(body), archive)
            else:
                self._transport.json(
                    change(
                        "PUT",
                        f"{self._base}/files/archive",
                        query={"path": remote_path(remote, "remote"), "user": user},
                        content=archive.read(),
                    )
                )

    def download(
        self,
        remote: RemotePath,
        local: str | os.PathLike[str],
        *,
        links: Links = "refuse",
        max_bytes: int = UNPACKED_BYTES,
        user: str | None = None,
    ) -> None:
        """Copies the content of a folder into the folder `local`, or a file to the path `local`.

        What the sandbox sends is not trusted: names that lead out of `local`, links and
        devices, and more than `max_bytes` (4 GiB) raise ArchiveError, and nothing is put in
        place. `links="skip"` leaves links out instead. A folder that is there is merged into; to
        copy a file, name the file to write: a folder there raises IsADirectoryError.
        """
        kind = "directory" if user == "root" else (self.stat(remote)).type
        if kind != "directory":
            if in_thread(os.path.isdir, local):
                raise IsADirectoryError(
                    errno.EISDIR, f"{remote} is a file, name the file to write in", str(local)
                )
            self._download_file(remote, Path(local), max_bytes)
            return
        request = Request(
            "GET",
            f"{self._base}/files/archive",
            query={"path": remote_path(remote, "remote"), "gzip": True, "user": user},
            accept="application/x-tar",
        )
        with tempfile.TemporaryFile(prefix="sealmark-") as file:
            try:
                self._into(file, request, max_bytes)
            except ConnectionError as error:
                if error.code == "connection_error":
                    error.hint = BROKEN_OFF
                raise
            file.seek(0)
            in_thread(unpack, file, local, links, max_bytes)

    def _into(self, file: IO[bytes], request: Request, most: int) -> None:
        left = most
        with closing(self._transport.pieces(request)) as pieces:
            for piece in pieces:
                left -= len(piece)
                if left < 0:
                    raise ArchiveError(
                        f"It is more than {most} bytes.",
                        code="answer_too_large",
                        hint="Raise max_bytes.",
                    )
                in_thread(file.write, piece)

    def _download_file(self, remote: RemotePath, local: Path, most: int) -> None:
        """Under another name first: a copy that breaks off leaves no short file."""
        local.absolute().parent.mkdir(parents=True, exist_ok=True)
        fd, name = tempfile.mkstemp(prefix=".sealmark-", dir=local.absolute().parent)
        try:
            with open(fd, "wb") as file:
                self._into(file, self._content(remote), most)
            os.chmod(name, 0o644)
            os.replace(name, local)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
