"""Options of the sources ``gantrymq.store`` and ``gantrymq.damage``, parsed from text; a mistake is one sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import attrs

from gantrymq.errors import ConfigError
from gantrymq_spark.batches import RowOptions
from gantrymq_spark.columns import schema
from gantrymq_spark.option_texts import OptionTexts
from gantrymq_spark.store_ranges import SPLIT_BYTES

__all__ = [
    "DAMAGE_OPTIONS",
    "EARLIEST",
    "LATEST",
    "STORE_OPTIONS",
    "StoreOptions",
    "read_store_options",
]

EARLIEST, LATEST = "earliest", "latest"
DAMAGE_OPTIONS = ("path", "checkCrc", "maxBytesPerPartition")
STORE_OPTIONS = (
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
class StoreOptions:
    """All parsed options; sent to executors."""

    path: Path
    check_crc: bool = True
    split_bytes: int = SPLIT_BYTES
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
    given: Mapping[str, str], *, source: str, known: tuple[str, ...] = STORE_OPTIONS
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
        split_bytes=texts.size("maxBytesPerPartition") or SPLIT_BYTES,
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
