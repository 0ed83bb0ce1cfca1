# SPDX-License-Identifier: Apache-2.0
"""Folders as tar: packed without following links, unpacked without leaving the target.

Theory of operation: an archive that comes from a sandbox was written by whoever owned the
sandbox. It is unpacked into a new folder beside the target, entry by entry, and only folders
and plain files are taken; a link, a device, a name with `..` or an absolute name ends it. With
no link among what was unpacked, no entry can lead outside. When all of it is there, it is
moved into its place; a target that exists already is merged into, and a link on the way there
is refused too.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from ._errors import ArchiveError
from ._protocol import PIECE_BYTES

Links = Literal["refuse", "skip"]

UNPACKED_BYTES = 4 << 30
UNPACKED_ENTRIES = 1_000_000
DEPTH = 256


def _refuse(what: str, hint: str | None = None) -> ArchiveError:
    return ArchiveError(what, code="unsafe_archive", hint=hint)


def _folder_entries(folder: Path, links: Links) -> Iterator[tuple[str, Path, os.stat_result]]:
    """All below it with names as in the archive, folders before what they hold."""
    stack: list[tuple[str, Path]] = [("", folder)]
    while stack:
        prefix, here = stack.pop()
        for entry in sorted(os.scandir(here), key=lambda e: e.name):
            name, path = prefix + entry.name, Path(entry.path)
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                yield name, path, status
                stack.append((name + "/", path))
            elif stat.S_ISREG(status.st_mode):
                yield name, path, status
            elif links == "refuse":
                raise _refuse(
                    f"{path} is neither a file nor a folder.",
                    'Remove it, or leave such entries out with links="skip".',
                )


def pack(folder: str | os.PathLike[str], links: Links, *, times: bool = True) -> IO[bytes]:
    """A temporary file with the folder's content as tar, at its begin; the caller closes it.

    Without `times` the same content is the same bytes.
    """
    root = Path(folder)
    out = tempfile.TemporaryFile(prefix="sealmark-")
    try:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name, path, status in _folder_entries(root, links):
                info = tarfile.TarInfo(name)
                info.mode = stat.S_IMODE(status.st_mode) & 0o777
                info.mtime = int(status.st_mtime) if times else 0
                if stat.S_ISDIR(status.st_mode):
                    info.type = tarfile.DIRTYPE
                    tar.addfile(info)
                    continue
                # what has become a link since is not followed
                fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
                with open(fd, "rb") as file:
                    info.size = os.fstat(fd).st_size
                    tar.addfile(info, file)
        out.seek(0)
        return out
    except BaseException as error:
        out.close()
        if isinstance(error, UnicodeError):
            raise _refuse(f"A name in {root} is no UTF-8.") from None
        raise


class Context:
    """A folder that a build takes its files from: pieces by their digest, and what is in them."""

    def __init__(self, folder: str | os.PathLike[str], links: Links) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile(prefix="sealmark-")
        self.pieces: list[str] = []
        self.files: list[dict[str, str | int]] = []
        try:
            with pack(folder, links, times=False) as tar:
                self._list(tar)
                tar.seek(0)
                with gzip.GzipFile(fileobj=self.file, mode="wb", compresslevel=6, mtime=0) as out:
                    shutil.copyfileobj(tar, out, PIECE_BYTES)
            self.file.seek(0)
            whole = hashlib.sha256()
            while piece := self.file.read(PIECE_BYTES):
                whole.update(piece)
                self.pieces.append(hashlib.sha256(piece).hexdigest())
            self.size = self.file.tell()
            self.sha256 = whole.hexdigest()
        except BaseException:
            self.file.close()
            raise

    def _list(self, tar: IO[bytes]) -> None:
        with tarfile.open(fileobj=tar, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    continue
                digest = hashlib.sha256()
                while piece := content.read(PIECE_BYTES):
                    digest.update(piece)
                self.files.append(
                    {
                        "path": member.name,
                        "sha256": digest.hexdigest(),
                        "size": member.size,
                        "mode": member.mode,
                    }
                )

    def read(self, number: int) -> bytes:
        """A piece of it."""
        self.file.seek(number * PIECE_BYTES)
        return self.file.read(PIECE_BYTES)


def _entry_path(name: str) -> PurePosixPath | None:
    """The relative path of an entry; None for the folder itself."""
    path = PurePosixPath(name)
    if path.is_absolute() or "\\" in name or "\0" in name or (os.name == "nt" and ":" in name):
        raise _refuse(f"The archive has an entry named {name!r}.")
    if ".." in path.parts or len(path.parts) > DEPTH:
        raise _refuse(f"The archive has an entry that leaves its folder: {name!r}.")
    return path if path.parts else None


def _copy(source: IO[bytes], target: Path, size: int, mode: int) -> None:
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "wb") as file:
        left = size
        while left:
            piece = source.read(min(left, 1 << 20))
            if not piece:
                raise _refuse("The archive is cut off.")
            file.write(piece)
            left -= len(piece)
    os.chmod(target, mode & 0o777)


def _unpack_into(archive: IO[bytes], root: Path, links: Links, most: int) -> None:
    left, count = most, 0
    modes: list[tuple[Path, int]] = []
    packed = archive.read(2) == b"\x1f\x8b"
    archive.seek(0)
    with tarfile.open(fileobj=archive, mode="r|gz" if packed else "r|") as tar:
        for member in tar:
            count += 1
            if count > UNPACKED_ENTRIES:
                raise _refuse(f"The archive has more than {UNPACKED_ENTRIES} entries.")
            path = _entry_path(member.name)
            if member.isdir():
                if path is not None:
                    (root / path).mkdir(parents=True, exist_ok=True)
                    modes.append((root / path, member.mode))
                continue
            if not member.isreg() or member.issparse():
                if links == "skip" and (member.issym() or member.islnk()):
                    continue
                raise _refuse(
                    f"{member.name!r} in the archive is neither a file nor a folder.",
                    'Leave links out with links="skip".' if member.issym() else None,
                )
            if path is None:
                raise _refuse("The archive has a file without a name.")
            left -= member.size
            if member.size < 0 or left < 0:
                raise _refuse(f"The archive holds more than {most} bytes.", "Raise max_bytes.")
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            source = tar.extractfile(member)
            if source is None:
                raise _refuse(f"{member.name!r} in the archive has no content.")
            with source:
                target.unlink(missing_ok=True)  # a name twice: the last counts
                _copy(source, target, member.size, member.mode)
    # at the end, since a folder may be read-only; it stays ours to go through
    for folder, mode in reversed(modes):
        os.chmod(folder, (mode & 0o777) | 0o700)


def _check_merge(source: Path, target: Path) -> None:
    """Whether it can be moved there: no folder where a file is, and none through a link."""
    for entry in os.scandir(source):
        to = target / entry.name
        if entry.is_dir(follow_symlinks=False):
            if to.is_symlink() or (to.exists() and not to.is_dir()):
                raise _refuse(f"{to} is in the way, and no folder.")
            if to.exists():
                _check_merge(Path(entry.path), to)
        elif to.is_dir() and not to.is_symlink():
            raise _refuse(f"{to} is in the way, and a folder.")


def _merge(source: Path, target: Path) -> None:
    """Moves what is in source into target, over files of the same name."""
    for entry in os.scandir(source):
        to = target / entry.name
        if entry.is_dir(follow_symlinks=False):
            if to.exists():
                _merge(Path(entry.path), to)
            else:
                os.rename(entry.path, to)
        else:
            os.replace(entry.path, to)


def unpack(
    archive: IO[bytes], folder: str | os.PathLike[str], links: Links, most: int = UNPACKED_BYTES
) -> None:
    """Unpacks a tar, packed with gzip or not, into a folder that is made if there is none.

    Raises ArchiveError, with nothing put in place, when it is broken, holds more than `most`
    bytes, or has entries that are neither files nor folders.
    """
    target = Path(folder).absolute()
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise _refuse(f"{target} is no folder.")
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".sealmark-", dir=target.parent))
    try:
        try:
            _unpack_into(archive, fresh, links, most)
        except (
            tarfile.TarError,
            zlib.error,
            EOFError,
            ValueError,
            OverflowError,
            RecursionError,
            FileExistsError,
            NotADirectoryError,
            IsADirectoryError,
        ) as error:
            raise _refuse(f"The archive is broken: {error}.") from None
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ):
                raise _refuse(f"The archive has a name that cannot be here: {error}.") from None
            raise
        if target.exists():
            _check_merge(fresh, target)
            _merge(fresh, target)
        else:
            os.chmod(fresh, 0o755)
            os.rename(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
