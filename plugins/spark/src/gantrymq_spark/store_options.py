"""Options of the sources ``gantrymq.store`` and ``gantrymq.damage``, and the ranges of the log that they read.

Options are parsed from text; a mistake is one sentence. The log is split into ranges that different processes can read.
A cut is any log offset within a file: a record belongs to the range in which it starts, and the reader of a range
searches for the first record after the range's start (`log_walk.align`). So only the ends of files are read here: bytes
after a file's last non-zero byte are excluded, as are bytes written later to an open log.

If the file ``abort`` exists, a broker has the store open or was not shut down cleanly. Then the checkpoint determines
up to which store time the log must be intact (`StoreRange.vouched_ms`); unfinished writes after that are not damage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.world import Files
from gantrymq_spark.batches import RowOptions
from gantrymq_spark.columns import schema
from gantrymq_spark.option_texts import OptionTexts
from gantrymq_store_files.blank import last_nonzero
from gantrymq_store_files.checkpoint import RECOVERY_MARGIN_MS
from gantrymq_store_tools.config_check import read_checkpoint
from gantrymq_store_tools.layout import Series, StoreFile, find_layout

_SPLIT_BYTES = 64 * 1024 * 1024
EARLIEST, LATEST = "earliest", "latest"
DAMAGE_OPTIONS = ("path", "checkCrc", "maxBytesPerPartition")
_STORE_OPTIONS = (
    *DAMAGE_OPTIONS,
    "columns",
    "storedBodies",
    "bodyProblems",
    "systemTopics",
    "unwrapBatches",
    "brokerName",
    "failOnDataLoss",
    "startingOffsets",
    "maxBytesPerTrigger",
)


@attrs.frozen
class StoreRange:
    """A range of the log. Made of plain values, so it can be sent to other machines, which must see the same folder."""

    log: Series
    start: int  # log offset; records that start at or after it
    end: int  # log offset; records that start before it
    log_end: int  # log offset after which there were only zeros when the range was created
    vouched_ms: int | None  # store time up to which the log must be intact; None after a clean shutdown: all of it


def plan(files: Files, root: Path, split_bytes: int = _SPLIT_BYTES) -> list[StoreRange]:
    """Return the ranges of the log of the store at *root*, in log order.

    Args:
        split_bytes: maximum size of a range, unless a record is longer.

    Raises:
        StoreLayoutError: *root* is not a store that can be read; says which and what to do.
        OSError: a folder or file cannot be read.
    """
    layout = find_layout(files, root)
    vouched_ms = None
    if layout.abort:
        vouched_ms = max(0, read_checkpoint(files, layout).log_timestamp - RECOVERY_MARGIN_MS)
    used = [(file, _used_bytes(files, file, layout.log.file_bytes)) for file in layout.log.files]
    while used and not used[-1][1]:
        used.pop()
    cuts: list[tuple[int, int]] = []
    for number, (file, length) in enumerate(used):
        whole = layout.log.file_bytes if number < len(used) - 1 else length  # zeros before other files are damage
        starts = range(0, max(length, 1), split_bytes)
        ends = [*starts[1:], whole]
        cuts += [(file.start + start, file.start + end) for start, end in zip(starts, ends, strict=True)]
    log_end = cuts[-1][1] if cuts else layout.log.start
    return [StoreRange(layout.log, *cut, log_end, vouched_ms) for cut in cuts]


def _used_bytes(files: Files, file: StoreFile, file_bytes: int) -> int:
    """Return the length up to the file's last non-zero byte; at most the size of the log's files."""
    opened = files.open(file.path, read_only=True)
    try:
        length = min(opened.size(), file_bytes)
        return last_nonzero(lambda at, size: opened.pread(size, at), 0, opened.written(0, length))
    finally:
        opened.close()


@attrs.frozen
class StoreOptions:
    """All parsed options; sent to executors."""

    path: Path
    check_crc: bool = True
    split_bytes: int = _SPLIT_BYTES
    columns: tuple[str, ...] = ()
    stored_bodies: bool = False
    body_problems: str = "null"  # one of BODY_PROBLEMS
    system_topics: bool = True
    unwrap_batches: bool = False
    broker_name: str | None = None  # records do not contain it
    fail_on_data_loss: bool = True
    starting: str | int = EARLIEST  # or LATEST, or a log offset
    trigger_bytes: int | None = None

    def row_options(self, columns: tuple[str, ...]) -> RowOptions:
        """Return the row options for these columns."""
        return RowOptions(schema(columns), self.broker_name, {}, self.stored_bodies, body_problems=self.body_problems)


def read_store_options(
    given: Mapping[str, str], *, source: str, known: tuple[str, ...] = _STORE_OPTIONS
) -> StoreOptions:
    """Parse the options of one query.

    Args:
        given: option texts; names in any case.
        source: name of the source, for messages.
        known: names of its options.

    Raises:
        ConfigError: an option is unknown or malformed.
    """
    texts = OptionTexts(given, known, f"the source {source}")
    if not texts.get("path"):
        raise ConfigError(f'the source {source} needs a folder: load("/var/lib/rocketmq/store"), the storePathRootDir')
    return StoreOptions(
        path=_folder(texts.get("path")),
        check_crc=texts.flag("checkCrc", True),
        split_bytes=texts.size("maxBytesPerPartition") or _SPLIT_BYTES,
        columns=texts.columns(),
        stored_bodies=texts.flag("storedBodies", False),
        body_problems=texts.body_problems(),
        system_topics=texts.flag("systemTopics", True),
        unwrap_batches=texts.flag("unwrapBatches", False),
        broker_name=texts.get("brokerName") or None,
        fail_on_data_loss=texts.flag("failOnDataLoss", True),
        starting=_starting(texts.get("startingOffsets", EARLIEST)),
        trigger_bytes=texts.size("maxBytesPerTrigger"),
    )


def _folder(text: str) -> Path:
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    elif re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", text):
        raise ConfigError(f"{text!r} is not a folder; a store is read from a folder that is mounted on every executor")
    return Path(text)


def _starting(text: str) -> str | int:
    if text.lower() in (EARLIEST, "-2"):
        return EARLIEST
    if text.lower() in (LATEST, "-1"):
        return LATEST
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        raise ConfigError(f"option startingOffsets: {text!r} is neither earliest, latest nor a log offset (bytes)")
    return int(text)
