"""Disk usage of the store, for the runtime information.

Source: apache/rocketmq store/.../DefaultMessageStore.java (getRuntimeInfo), common/.../UtilAll.java
(getDiskPartitionSpaceUsedPercent), broker/.../processor/AdminBrokerProcessor.java (prepareRuntimeInfo).
"""

from __future__ import annotations

from pathlib import Path

from gantrymq.formats.store_folders import COMMIT_LOG, QUEUES
from gantrymq.world import FileReader

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def disk_figures(files: FileReader, root: Path) -> dict[str, str]:
    """Return the used share of the disk (0 to 1) and its capacity; empty for a store without a log on disk.

    Free is what this process may still use, as in the share; Java also counts the blocks reserved for root.

    Args:
        files: the broker's file system.
        root: the store's folder.
    """
    log = root / COMMIT_LOG
    if files.stat(log) is None:
        return {}
    of_log = _used(files, log)
    use = files.disk_use(log)
    return {
        "commitLogDirCapacity": f"Total : {readable(use.total)}, Free : {readable(use.usable)}.",
        "commitLogDiskRatio": of_log,
        f"commitLogDiskRatio_{log}": of_log,
        "consumeQueueDiskRatio": _used(files, root / QUEUES),
    }


def _used(files: FileReader, path: Path) -> str:
    return repr(round(files.disk_use(path).used_share, 4))


def readable(count: int) -> str:
    """Format a number of bytes like Java, such as ``252.0 GiB``."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, len(_UNITS))
    return f"{count / 1024**power:.1f} {_UNITS[power - 1]}"
