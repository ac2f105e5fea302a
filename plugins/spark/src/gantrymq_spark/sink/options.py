"""Options of the sink ``gantrymq``, parsed from text; each mistake raises one sentence."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin import names
from gantrymq_spark.option_texts import OptionTexts

__all__ = ["DEFAULT_GROUP", "OPTIONS", "SinkOptions", "read_options"]

DEFAULT_GROUP = "GANTRYMQ_SPARK_SINK"
DEFAULT_MESSAGES = 64
DEFAULT_BYTES = 256 * 1024
MAX_BYTES = 4 * 1024 * 1024
DEFAULT_WAIT_MS = 2 * 60_000
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
_SPARK_OPTIONS = ("checkpointlocation", "queryname")  # options of streams, which Spark also passes to sinks


@attrs.frozen
class SinkOptions:
    """All parsed options; sent to executors."""

    namesrv: str
    tls: bool | None = None
    topic: str | None = None  # for frames without a topic column, and for rows in which it is null
    group: str = DEFAULT_GROUP
    batch_messages: int = DEFAULT_MESSAGES  # per request; 1 sends each message separately
    batch_bytes: int = DEFAULT_BYTES  # bytes of bodies per request
    max_message_bytes: int = MAX_BYTES  # limit for one body
    id_column: str | None = None
    ids: bool = True
    job_id: str | None = None  # None: a new id for each batch query
    keep_queues: bool = False  # messages of one source queue go to one queue, in order
    wait_ms: int = DEFAULT_WAIT_MS  # how long to wait for a broker that does not respond


def read_options(given: Mapping[str, str], *, streaming: bool, environ: Mapping[str, str]) -> SinkOptions:
    """Parse the options of one query.

    Args:
        given: option texts; names in any case.
        streaming: whether the query is a stream.
        environ: the driver's environment; NAMESRV_ADDR is the default of the option namesrv.

    Raises:
        ConfigError: an option is unknown or malformed.
    """
    texts = OptionTexts(given, OPTIONS, "the sink gantrymq", ignored=_SPARK_OPTIONS)
    if streaming and "jobId" in texts:
        raise ConfigError("option jobId is for batch queries, a stream's ids contain the query's id; remove it")
    if "idColumn" in texts and texts.flag("sinkIds") is False:
        raise ConfigError("options idColumn and sinkIds=false cannot be set together; remove one of them")
    topic = texts.raw("topic")
    return SinkOptions(
        namesrv=texts.name_servers(environ),
        tls=texts.flag("tls"),
        topic=None if topic is None else texts.legal("topic", topic, names.check_topic),
        group=texts.legal("group", texts.get("group", DEFAULT_GROUP), names.check_group),
        batch_messages=texts.count("batchMessages", 10_000) or DEFAULT_MESSAGES,
        batch_bytes=texts.count("batchBytes", MAX_BYTES) or DEFAULT_BYTES,
        max_message_bytes=texts.count("maxMessageBytes", 1 << 30) or MAX_BYTES,
        id_column=texts.text("idColumn"),
        ids=texts.flag("sinkIds", True),
        job_id=texts.text("jobId"),
        keep_queues=texts.flag("keepQueues", False),
        wait_ms=texts.duration_ms("brokerWait", DEFAULT_WAIT_MS),
    )
