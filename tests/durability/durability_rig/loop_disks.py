"""File systems on loop devices whose disk can be copied at any instant, as a power cut would leave it.

    xfs with reflink, in its own image              Shelf
    +- disk.img   ext4 or xfs, mounted: the store     LoopDisk
    +- cut.img    a reflink copy of disk.img          LoopDisk, once the copy is mounted

Data that the inner file system has written to its device is in ``disk.img``, data only in its page cache is not. The
copy (ioctl FICLONE) is atomic and takes milliseconds: it waits for running writes, and new ones wait. Mounting it
replays the journal, as at the next start of a machine. The device writes with direct I/O if possible, so that there is
no second page cache.

Everything here needs root. Only what this module mounted or attached is removed again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from polling import wait_until

FICLONE = 0x40049409  # linux/fs.h
SHELF_BYTES = 8 << 30  # sparse
DISK_BYTES = 640 << 20  # sparse; mkfs.xfs makes none below 300 MB
BUSY_S = 20.0

PROGRAMS = ("mount", "umount", "losetup", "mkfs.xfs", "mkfs.ext4")
# ext4 syncs a file that replaces another on its own; nothing may rely on that.
OPTIONS = {"ext4": "noauto_da_alloc,noinit_itable", "xfs": "nouuid"}  # a copy has the uuid of the original
# A file that shares its blocks, as image and copy do, takes direct I/O in whole blocks only.
SECTOR_BYTES = "4096"
FORMAT = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-b", SECTOR_BYTES),
    "xfs": ("mkfs.xfs", "-q", "-f", "-s", f"size={SECTOR_BYTES}"),
}


class NoLoopDisksError(Exception):
    """This machine cannot make such disks; the message says why."""


def why_none() -> str | None:
    """Return what is missing on this machine, as far as that can be determined without trying."""
    if sys.platform != "linux":
        return "loop devices are Linux's"
    if os.geteuid() != 0:
        return "needs root, to mount file systems"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"needs {', '.join(missing)}" if missing else None


class Shelf:
    """A folder for images of disks that can be copied in an instant. Taken down when the context ends.

    Raises:
        NoLoopDisksError: no root, programs, loop device or reflink.
    """

    def __init__(self, folder: Path) -> None:
        """*folder* gets the image and a folder to mount it on."""
        self.folder = folder / "shelf"
        self._image = folder / "shelf.img"

    def __enter__(self) -> Self:
        if reason := why_none():
            raise NoLoopDisksError(reason)
        _sparse(self._image, SHELF_BYTES)
        self.folder.mkdir()
        try:
            _try("mkfs.xfs", "-q", "-f", "-m", "reflink=1", str(self._image))
            _try("mount", "-t", "xfs", "-o", "loop", str(self._image), str(self.folder))
        except NoLoopDisksError:
            self._image.unlink()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _unmount(self.folder)  # which gives the loop device back too
        self._image.unlink()

    def disk(self, name: str, kind: str) -> LoopDisk:
        """A new, empty disk with the file system *kind*; mounted when its context begins."""
        image = self.folder / f"{name}.img"
        _sparse(image, DISK_BYTES)
        _try(*FORMAT[kind], str(image))
        return LoopDisk(image, kind)


class LoopDisk:
    """An image that is mounted at `folder` while the context lasts."""

    def __init__(self, image: Path, kind: str) -> None:
        self.folder = image.with_suffix("")
        self.direct = False  # whether the device bypasses the page cache of the shelf
        self._image, self._kind = image, kind
        self._device = ""

    def __enter__(self) -> Self:
        self.folder.mkdir()
        attach = ("losetup", "--find", "--show", "--sector-size", SECTOR_BYTES)
        try:
            self._device = _try(*attach, "--direct-io=on", str(self._image)).strip()
        except NoLoopDisksError:
            for device in _listed("NAME", "--associated", str(self._image)):  # attached all the same
                _try("losetup", "--detach", device)
            self._device = _try(*attach, str(self._image)).strip()
        self.direct = _listed("DIO", self._device) == ["1"]
        try:
            _try("mount", "-t", self._kind, "-o", OPTIONS[self._kind], self._device, str(self.folder))
        except BaseException:
            self._detach()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            _unmount(self.folder)
        finally:
            self._detach()
        self._image.unlink()

    def cut(self, name: str) -> LoopDisk:
        """Copy the present state of the disk into a new image."""
        import fcntl

        image = self._image.with_name(f"{name}.img")
        with self._image.open("rb") as source, image.open("wb") as target:
            fcntl.ioctl(target.fileno(), FICLONE, source.fileno())
        return LoopDisk(image, self._kind)

    def _detach(self) -> None:
        subprocess.run(["losetup", "--detach", self._device], check=True, capture_output=True)
        self.folder.rmdir()


def _sparse(path: Path, length: int) -> None:
    with path.open("wb") as file:
        file.truncate(length)


def _try(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoLoopDisksError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _listed(column: str, *words: str) -> list[str]:
    return _try("losetup", "--list", "--noheadings", "--output", column, *words).split()


def _unmount(folder: Path) -> None:
    """Unmount *folder*. A folder that stays busy is detached, to be unmounted after its last use, and is an error."""
    errors: list[str] = []

    def unmounted() -> bool:
        done = subprocess.run(["umount", str(folder)], capture_output=True, text=True, check=False)
        errors.append(done.stderr.strip())
        return not done.returncode

    try:
        wait_until(unmounted, f"end of the use of {folder}", BUSY_S, lambda: errors[-1])
    except TimeoutError:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)
        raise
