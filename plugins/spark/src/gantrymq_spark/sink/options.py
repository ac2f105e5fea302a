"""Options of the sink ``gantrymq``, parsed from text; each mistake raises one sentence.

Case does not matter, because Spark passes names in lower case.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

import attrs

from gantrymq.errors import ConfigError, InvalidParameter
from gantrymq.model import names
from gantrymq_spark.live.times import duration_ms

__all__ = ["DEFAULT_GROUP", "OPTIONS", "SinkOptions", "read_options"]

DEFAULT_GROUP = "GANTRYMQ_SPARK_SINK"
DEFAULT_MESSAGES = 64
DEFAULT_BYTES = 256 * 1024
MAX_BYTES = 4 * 1024 * 1024
OPTIONS = (
    "namesrv",
    "tls",
    "topic",
    "group",
    "batchMessages",
    "batchBytes",
    "maxMessageBytes",
    "idColumn",
    "sinkIds",
    "jobId",
    "keepQueues",
    "brokerWait",
)
_SPELLED = {name.lower(): name for name in OPTIONS}
_OF_SPARK = ("checkpointlocation", "queryname")  # of a stream; Spark passes them to sinks as well


@attrs.frozen
class SinkOptions:
    """All parsed options; sent to executors."""

    namesrv: str
    tls: bool | None = None
    topic: str | None = None  # for frames without that column, and rows in which it is null
    group: str = DEFAULT_GROUP
    batch_messages: int = DEFAULT_MESSAGES  # of one request; 1 sends each message separately
    batch_bytes: int = DEFAULT_BYTES  # of one request, of bodies
    max_message_bytes: int = MAX_BYTES  # of one body
    id_column: str | None = None
    ids: bool = True
    job_id: str | None = None  # None: a new one for each batch query
    keep_queues: bool = False  # messages of one source queue go to one queue, in order
    wait_ms: int = 2 * 60_000  # for a broker that does not respond


def read_options(given: Mapping[str, str], *, streaming: bool, environ: Mapping[str, str]) -> SinkOptions:
    """Parse the options of one query.

    Args:
        given: option texts; names in any case.
        streaming: whether the query is a stream.
        environ: of the driver; NAMESRV_ADDR is the default of the option namesrv.

    Raises:
        ConfigError: an option is unknown or malformed.
    """
    texts = _spelled(given)
    if streaming and "jobId" in texts:
        raise ConfigError("option jobId is for batch queries, a stream's ids contain the query's id; remove it")
    if "idColumn" in texts and _flag(texts, "sinkIds") is False:
        raise ConfigError("options idColumn and sinkIds=false cannot be set together; remove one of them")
    topic = texts.get("topic")
    if topic is not None:
        _legal("topic", topic, names.check_topic)
    group = texts.get("group", DEFAULT_GROUP).strip()
    _legal("group", group, names.check_group)
    wait = texts.get("brokerWait")
    return SinkOptions(
        namesrv=_namesrv(texts, environ),
        tls=_flag(texts, "tls"),
        topic=topic,
        group=group,
        batch_messages=_count(texts, "batchMessages", DEFAULT_MESSAGES, 10_000),
        batch_bytes=_count(texts, "batchBytes", DEFAULT_BYTES, MAX_BYTES),
        max_message_bytes=_count(texts, "maxMessageBytes", MAX_BYTES, 1 << 30),
        id_column=_text(texts, "idColumn"),
        ids=_flag(texts, "sinkIds") is not False,
        job_id=_text(texts, "jobId"),
        keep_queues=_flag(texts, "keepQueues") is True,
        wait_ms=2 * 60_000 if wait is None else duration_ms("brokerWait", wait),
    )


def _spelled(given: Mapping[str, str]) -> dict[str, str]:
    texts = {}
    for name, text in given.items():
        if name.lower() in _OF_SPARK:
            continue
        spelled = _SPELLED.get(name.lower())
        if spelled is None:
            near = difflib.get_close_matches(name.lower(), _SPELLED, 1)
            hint = f"did you mean {_SPELLED[near[0]]}?" if near else f"the options are {', '.join(OPTIONS)}"
            raise ConfigError(f"the sink gantrymq has no option {name}; {hint}")
        texts[spelled] = str(text)
    return texts


def _legal(option: str, text: str, check: object) -> None:
    try:
        check(text)  # type: ignore[operator]
    except InvalidParameter as problem:
        raise ConfigError(f"option {option}: {problem}") from None


def _namesrv(texts: Mapping[str, str], environ: Mapping[str, str]) -> str:
    found = texts.get("namesrv", environ.get("NAMESRV_ADDR", "")).strip()
    if not found:
        raise ConfigError(
            'option namesrv is missing; set it to the name servers, such as "10.0.0.1:9876;10.0.0.2:9876"'
        )
    return found


def _text(texts: Mapping[str, str], name: str) -> str | None:
    if name in texts and not texts[name].strip():
        raise ConfigError(f"option {name} is empty; write a text or remove it")
    return texts.get(name)


def _count(texts: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = texts.get(name, str(default)).strip()
    if not re.fullmatch(r"[0-9]{1,12}", text, re.ASCII) or not 1 <= int(text) <= most:
        raise ConfigError(f"option {name}: {text!r} is not a count; write a number from 1 to {most}")
    return int(text)


def _flag(texts: Mapping[str, str], name: str) -> bool | None:
    if name not in texts:
        return None
    word = texts[name].strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(f"option {name}: {texts[name]!r} is neither true nor false")
    return word == "true"
