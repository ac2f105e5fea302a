"""Options of the sources ``gantrymq.store`` and ``gantrymq.damage``, parsed from text; a mistake is one sentence."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from gantrymq.errors import ConfigError, InvalidParameter
from gantrymq_spark.batches import BODY_PROBLEMS, RowOptions
from gantrymq_spark.columns import schema, selected
from gantrymq_spark.store_ranges import SPLIT_BYTES

__all__ = [
    "DAMAGE_OPTIONS",
    "EARLIEST",
    "LATEST",
    "STORE_OPTIONS",
    "StoreOptions",
    "read_body_problems",
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
_SIZE = re.compile(r"([1-9][0-9]{0,14})([kmg]?)b?", re.ASCII)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


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
    spelled = {name.lower(): name for name in known}
    texts = {}
    for name, text in given.items():
        if name.lower() not in spelled:
            near = difflib.get_close_matches(name.lower(), spelled, 1)
            hint = f"did you mean {spelled[near[0]]}?" if near else f"the options are {', '.join(known)}"
            raise ConfigError(f"the source {source} has no option {name}; {hint}")
        texts[spelled[name.lower()]] = str(text).strip()
    if not texts.get("path"):
        raise ConfigError(f'the source {source} needs a folder: load("/var/lib/rocketmq/store"), the storePathRootDir')
    read: dict[str, tuple[str, Callable[[str, str], Any]]] = {
        "checkCrc": ("check_crc", _flag),
        "maxBytesPerPartition": ("split_bytes", _size),
        "columns": ("columns", _columns),
        "storedBodies": ("stored_bodies", _flag),
        "bodyProblems": ("body_problems", read_body_problems),
        "systemTopics": ("system_topics", _flag),
        "unwrapBatches": ("unwrap_batches", _flag),
        "brokerName": ("broker_name", lambda name, text: text or None),
        "failOnDataLoss": ("fail_on_data_loss", _flag),
        "startingOffsets": ("starting", _starting),
        "maxBytesPerTrigger": ("trigger_bytes", _size),
    }
    values = {read[name][0]: read[name][1](name, text) for name, text in texts.items() if name != "path"}
    values.setdefault("columns", selected(None))
    return StoreOptions(_folder(texts["path"]), **values)


def _folder(text: str) -> Path:
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    elif re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", text):
        raise ConfigError(f"{text!r} is not a folder; a store is read from a folder that is mounted on every executor")
    return Path(text)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"option {name}: {text!r} is neither true nor false")
    return text.lower() == "true"


def read_body_problems(name: str, text: str) -> str:
    """Parse one of `BODY_PROBLEMS`. Raises ConfigError for another text."""
    if text.lower() not in BODY_PROBLEMS:
        raise ConfigError(f"option {name}: {text!r} is not one of {', '.join(BODY_PROBLEMS)}")
    return text.lower()


def _size(name: str, text: str) -> int:
    found = _SIZE.fullmatch(text.lower())
    if found is None:
        raise ConfigError(f"option {name}: {text!r} is not a size; write a number of bytes from 1, or for example 64m")
    return int(found[1]) * _UNITS[found[2]]


def _columns(name: str, text: str) -> tuple[str, ...]:
    try:
        return selected(text)
    except InvalidParameter as problem:
        raise ConfigError(f"option {problem}") from None


def _starting(name: str, text: str) -> str | int:
    if text.lower() in (EARLIEST, "-2"):
        return EARLIEST
    if text.lower() in (LATEST, "-1"):
        return LATEST
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        raise ConfigError(f"option {name}: {text!r} is neither earliest, latest nor a log offset (bytes)")
    return int(text)
