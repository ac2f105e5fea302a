"""consumerFilter.json: the table of filters on disk, in RocketMQ's format.

The file gives the bits in the ext files their meaning. A file that cannot be read is therefore renamed and the table
starts empty: no bits are used, messages are evaluated when they are read, and heartbeats register the groups again.

Source: apache/rocketmq broker/.../filter/ConsumerFilterManager.java (configFilePath, decode, encode).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from gantrymq.errors import FormatError
from gantrymq.plugin.config_files import broken_of, load, pretty, save
from gantrymq.plugin.world import FileTree
from gantrymq_filter_sql92.bitmap.filter_table import ByTopic, FilterTable, members_of

__all__ = ["FILE", "load_table", "save_table"]

log = logging.getLogger(__name__)

FILE: Final = "consumerFilter.json"


def load_table(files: FileTree, folder: Path, table: FilterTable, now_ms: int) -> None:
    """Load the file in *folder* into *table*. Runs in a thread.

    Raises:
        OSError: a file exists and cannot be read or renamed.
    """
    path = folder / FILE
    try:
        members = load(files, path, log.warning)
    except FormatError as error:
        if files.stat(path) is not None:
            _put_aside(files, path)
        log.warning("%s; SQL92 consumers are read without bits until they register again", error)
        return
    if members is None:
        return
    try:
        if not table.load(members, now_ms):
            log.warning(
                "%s holds bits of another size than expectConsumerNumUseFilter and maxErrorRateOfBloomFilter make: "
                "they are not believed, SQL92 consumers register anew",
                path,
            )
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        log.warning(
            "%s makes no sense (%r); kept as %s, SQL92 consumers are read without bits until they register again",
            *(path, error, _put_aside(files, path)),
        )


def _put_aside(files: FileTree, path: Path) -> str:
    """Rename an unusable file and return its new name."""
    aside = broken_of(path)
    files.rename(path, aside)
    files.sync_dir(path.parent)
    return aside.name


def save_table(files: FileTree, folder: Path, table: ByTopic) -> None:
    """Write *table* durably. Runs in a thread.

    Raises:
        OSError: writing failed.
    """
    save(files, folder / FILE, pretty(members_of(table)))
