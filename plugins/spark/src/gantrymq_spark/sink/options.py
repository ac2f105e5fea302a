"""Options of the sink ``gantrymq``, read from their texts; a mistake is a sentence."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping

import attrs

from gantrymq.client.checks import check_producer_group
from gantrymq.errors import ConfigError, InvalidParameter
from gantrymq.model import names
from gantrymq_spark.live.times import duration_ms

__all__ = ["DEFAULT_GROUP", "OPTIONS", "SinkOptions", "read_sink_options"]

DEFAULT_GROUP = "GANTRYMQ_SPARK_SINK"
DEFAULT_TIMEOUT_MS = 30_000
NAMESRV_VARIABLE = "NAMESRV_ADDR"
OPTIONS = ("namesrv", "tls", "topic", "producerGroup", "idColumn", "sinkIds", "batchSize", "sendTimeout")
_OF_SPARK = ("checkpointlocation", "path", "querytype")  # what Spark puts beside them
MOST_IN_BATCH = 1000


@attrs.frozen
class SinkOptions:
    """All options, read; goes to executors."""

    namesrv: str
    tls: bool | None = None
    topic: str | None = None  # for every row, in place of the column
    group: str = DEFAULT_GROUP
    id_column: str | None = None  # whose values are the ids of rows
    sink_ids: bool = True
    batch_size: int = 1  # messages of one request
    timeout_ms: int = DEFAULT_TIMEOUT_MS


def read_sink_options(given: Mapping[str, str], environ: Mapping[str, str]) -> SinkOptions:
    """Read the options of one query.

    Args:
        given: texts; names in any case.
        environ: of the driver; NAMESRV_ADDR is used where no option says it.

    Raises:
        ConfigError: a mistake.
    """
    spelled = {name.lower(): name for name in OPTIONS}
    texts = {}
    for name, text in given.items():
        if name.lower() in _OF_SPARK:
            continue
        if name.lower() not in spelled:
            near = difflib.get_close_matches(name.lower(), spelled, 1)
            hint = f"did you mean {spelled[near[0]]}?" if near else f"there are {', '.join(OPTIONS)}"
            raise ConfigError(f"the sink gantrymq has no option {name}; {hint}")
        texts[spelled[name.lower()]] = str(text).strip()
    namesrv = texts.get("namesrv", environ.get(NAMESRV_VARIABLE, "")).strip()
    if not namesrv:
        raise ConfigError(
            'option namesrv is missing; set it to the name servers, such as "10.0.0.1:9876;10.0.0.2:9876"'
        )
    timeout = texts.get("sendTimeout")
    return SinkOptions(
        namesrv=namesrv,
        tls=_flag(texts, "tls"),
        topic=_checked("topic", texts.get("topic"), names.check_topic),
        group=_checked("producerGroup", texts.get("producerGroup"), check_producer_group) or DEFAULT_GROUP,
        id_column=texts.get("idColumn") or None,
        sink_ids=_flag(texts, "sinkIds") is not False,
        batch_size=_batch_size(texts),
        timeout_ms=DEFAULT_TIMEOUT_MS if timeout is None else duration_ms("sendTimeout", timeout),
    )


def _checked(option: str, text: str | None, check: Callable[[str], None]) -> str | None:
    if text is None:
        return None
    try:
        check(text)
    except InvalidParameter as problem:
        raise ConfigError(f"option {option}: {problem}") from None
    return text


def _flag(texts: Mapping[str, str], name: str) -> bool | None:
    if name not in texts:
        return None
    if texts[name].lower() not in ("true", "false"):
        raise ConfigError(f"option {name}: {texts[name]!r} is neither true nor false")
    return texts[name].lower() == "true"


def _batch_size(texts: Mapping[str, str]) -> int:
    text = texts.get("batchSize", "1")
    if not re.fullmatch(r"[0-9]{1,4}", text, re.ASCII) or not 1 <= int(text) <= MOST_IN_BATCH:
        raise ConfigError(f"option batchSize: {text!r} is no number of messages; write 1 to {MOST_IN_BATCH}")
    return int(text)
