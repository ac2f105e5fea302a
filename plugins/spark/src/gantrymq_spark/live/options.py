"""Options of the source ``gantrymq``, parsed from text; each mistake raises one sentence.

Options have the names of Spark's Kafka source if it has the same option.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from gantrymq.client import Credentials
from gantrymq.errors import ClientError, ConfigError, SubscriptionParseFailed
from gantrymq.plugin import names
from gantrymq.plugin.client import parse_tags
from gantrymq.plugin.model import ALL, SQL92, TAG, MessageQueue, Subscription
from gantrymq_filter_sql92.expression import parse
from gantrymq_spark.live.starting_offsets import (
    EARLIEST,
    LATEST,
    StartingOffsets,
    queue_tree,
    read_offsets,
    read_time,
    read_times,
)
from gantrymq_spark.option_texts import ACCOUNT, OptionTexts, columns_of

DEFAULT_GROUP = "GANTRYMQ_SPARK"
DEFAULT_DELAY_MS = 15 * 60_000
DEFAULT_WAIT_MS = 2 * 60_000

_BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "filterPushdown")
_STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
OPTIONS = (
    "namesrv",
    "tls",
    *ACCOUNT,
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    *_BATCH_ONLY,
    *_STREAM_ONLY,
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxBytesPerPartition",
    "columns",
    "storedBodies",
    "bodyProblems",
    "groupId",
    "tags",
    "sql92",
    "brokerWait",
)
_WANTED = ("subscribe", "subscribePattern", "assign")


@attrs.frozen
class QueueSelection:
    """The queues to read; one of topics by name, topics whose whole name matches a pattern, or single queues."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    queues: frozenset[MessageQueue] = frozenset()


@attrs.frozen
class LiveOptions:
    """All parsed options; sent to executors."""

    namesrv: str
    wanted: QueueSelection
    starting: StartingOffsets
    ending: StartingOffsets
    tls: bool | None = None
    credentials: Credentials | None = None
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records: int | None = None  # of one partition
    max_bytes: int | None = None  # of one partition, approximately
    max_offsets: int | None = None  # of one trigger
    min_offsets: int | None = None
    max_delay_ms: int = DEFAULT_DELAY_MS
    columns: tuple[str, ...] = ()
    stored_bodies: bool = False
    body_problems: str = "null"  # one of BODY_PROBLEMS
    group: str = DEFAULT_GROUP
    commits: bool = False  # offsets are committed to the broker for the group that the user named
    expression: str = ALL
    expression_type: str = TAG
    filter_pushdown: bool = False
    wait_ms: int = DEFAULT_WAIT_MS  # for a broker that does not respond while a range is read


def read_options(given: Mapping[str, str], *, streaming: bool, environ: Mapping[str, str]) -> LiveOptions:
    """Parse the options of one query.

    Args:
        given: option texts; names in any case.
        streaming: whether the query is a stream.
        environ: of the driver; NAMESRV_ADDR and the account in it are the defaults of the options.

    Raises:
        ConfigError: an option is unknown or malformed.
    """
    texts = OptionTexts(given, OPTIONS, "the source gantrymq")
    for name in _BATCH_ONLY if streaming else _STREAM_ONLY:
        if name in texts:
            kind, other = ("batch", "a stream") if streaming else ("streaming", "a batch")
            raise ConfigError(f"option {name} is for {kind} queries; remove it, this query is {other}")
    least, most = texts.count("minOffsetsPerTrigger"), texts.count("maxOffsetsPerTrigger")
    if "maxTriggerDelay" in texts and least is None:
        raise ConfigError("option maxTriggerDelay has no effect without minOffsetsPerTrigger; set both or neither")
    if least is not None and most is not None and least > most:
        raise ConfigError(f"option minOffsetsPerTrigger is {least}, more than maxOffsetsPerTrigger, which is {most}")
    expression, expression_type = _filter(texts)
    return LiveOptions(
        namesrv=texts.name_servers(environ),
        wanted=_selection(texts),
        starting=_places(texts, "starting", StartingOffsets("startingOffsets", LATEST if streaming else EARLIEST)),
        ending=_ending(texts),
        tls=texts.flag("tls"),
        credentials=texts.credentials(environ),
        fail_on_data_loss=texts.flag("failOnDataLoss", True),
        min_partitions=texts.count("minPartitions"),
        max_records=texts.count("maxRecordsPerPartition"),
        max_bytes=texts.count("maxBytesPerPartition"),
        max_offsets=most,
        min_offsets=least,
        max_delay_ms=texts.duration_ms("maxTriggerDelay", DEFAULT_DELAY_MS),
        columns=texts.columns(),
        stored_bodies=texts.flag("storedBodies", False),
        body_problems=texts.body_problems(),
        filter_pushdown=texts.flag("filterPushdown", False),
        group=texts.legal("groupId", texts.get("groupId", DEFAULT_GROUP), names.check_group),
        commits="groupId" in texts,
        expression=expression,
        expression_type=expression_type,
        wait_ms=texts.duration_ms("brokerWait", DEFAULT_WAIT_MS),
    )


def _selection(texts: OptionTexts) -> QueueSelection:
    given = [name for name in _WANTED if name in texts]
    if len(given) != 1:
        said = f"{' and '.join(given)} are set" if given else "none of them is set"
        raise ConfigError(f"set one of the options subscribe, subscribePattern and assign; {said}")
    text = texts.get(given[0])
    if given[0] == "subscribePattern":
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as problem:
            raise ConfigError(f"option subscribePattern: {text!r} is not a regular expression: {problem}") from None
        if not text:
            raise ConfigError("option subscribePattern is empty; write a regular expression for whole topic names")
        return QueueSelection(pattern=text)
    if given[0] == "assign":
        queues = frozenset(queue_tree("assign", text))
        for topic in sorted({queue.topic for queue in queues}):
            texts.legal("assign", topic, names.check_topic)
        return QueueSelection(queues=queues)
    topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
    if not topics:
        raise ConfigError("option subscribe names no topic; write one, or several with commas between them")
    for topic in topics:
        texts.legal("subscribe", topic, names.check_topic)
    return QueueSelection(topics=topics)


def _places(texts: OptionTexts, end: str, default: StartingOffsets) -> StartingOffsets:
    """Parse whichever of the three options is set."""
    offsets, moment, moments = f"{end}Offsets", f"{end}Timestamp", f"{end}OffsetsByTimestamp"
    given = [name for name in (offsets, moment, moments) if name in texts]
    if len(given) > 1:
        raise ConfigError(f"options {' and '.join(given)} set the same thing; set one of them")
    if not given:
        return default
    reader = {offsets: read_offsets, moment: read_time, moments: read_times}[given[0]]
    return reader(given[0], texts.get(given[0]))


def _ending(texts: OptionTexts) -> StartingOffsets:
    found = _places(texts, "ending", StartingOffsets("endingOffsets", LATEST))
    if EARLIEST in (found.everywhere, *found.by_queue.values()):
        raise ConfigError(
            "option endingOffsets cannot be earliest (-2), which selects nothing; write latest or an offset"
        )
    return found


def read_columns(given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns of option ``columns``, all columns without it. Raises ConfigError."""
    return columns_of(next((text for name, text in given.items() if name.lower() == "columns"), None))


def _filter(texts: OptionTexts) -> tuple[str, str]:
    """Return expression and type."""
    if "tags" in texts and "sql92" in texts:
        raise ConfigError("options tags and sql92 cannot be set together; write TAGS IN ('TagA', 'TagB') in sql92")
    if "sql92" in texts:
        expression = texts.get("sql92")
        if not expression:
            raise ConfigError("option sql92 is empty; write an expression such as a > 5 AND TAGS = 'TagA'")
        asked = Subscription("", expression, SQL92).resolved()
        if asked.type == SQL92:  # not NAME:: text, which only brokers with that filter can parse
            try:
                parse(expression)
            except SubscriptionParseFailed as problem:
                raise ConfigError(f"option sql92: {problem}") from None
        return expression, SQL92
    expression = texts.get("tags", ALL)
    try:
        parse_tags(expression)
    except ClientError as problem:
        raise ConfigError(f"option tags: {problem}") from None
    return expression or ALL, TAG
