"""Writes new messages to an archive, with Spark.

    archive(spark, Input(topics=("Orders",), namesrv="10.0.0.1:9876"), "/archive")
    archive(spark, Input(store="/var/lib/rocketmq/store", options={"brokerName": "broker-a"}), "/archive")

Tasks read messages, divide them by topic and day, and write files to a staging folder that readers ignore; the driver
then commits them all at once. If a run is killed before that, the archive is unchanged, and the next run removes the
files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from gantrymq.errors import ConfigError
from gantrymq.plugin.model import MessageQueue, Queue
from gantrymq.plugin.real_world import RealFiles
from gantrymq_spark.jobs.archive_layout import STAGING, ArchivedFile, QueueProgress
from gantrymq_spark.jobs.archive_manifest import Archive
from gantrymq_spark.jobs.archive_plan import ArchiveRange, next_ranges, refuse_unnamed
from gantrymq_spark.jobs.archive_write import FILE_BYTES, rows_in_ranges, staged_files
from gantrymq_spark.jobs.inputs import Input, messages, store_texts
from gantrymq_spark.jobs.live_ranges import live_bounds, live_ranges
from gantrymq_spark.store_options import read_store_options
from gantrymq_spark.store_reading import plan_read
from gantrymq_store_tools.target_files import refuse_store_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_COMMIT_MESSAGES = 20_000_000  # in one commit, approximately; a stopped run continues after the last commit
_MADE = "file string"  # JSON of an ArchivedFile


@attrs.define
class ArchiveReport:
    """The result of a run."""

    folder: str
    messages: int = 0
    files: int = 0
    bytes: int = 0
    commits: int = 0
    lost: list[tuple[str, str, int, int, int]] = attrs.field(
        factory=list
    )  # broker, topic, queue, first offset, end offset
    missing: int = 0  # messages missing within their queues
    archived: dict[tuple[str, Queue], QueueProgress] = attrs.field(factory=dict)  # by broker name and queue

    def to_json(self) -> dict[str, Any]:
        """Return the report as a document; ``archived`` names the offset before which a broker may delete a queue."""
        found = attrs.asdict(self, filter=lambda field, _: field.name not in ("lost", "archived"))
        names = ("broker", "topic", "queue", "from", "before")
        found["lost"] = [dict(zip(names, each, strict=True)) for each in self.lost]
        found["archived"] = [
            {"broker": broker, "topic": queue.topic, "queue": queue.queue_id, "before": each.next}
            for (broker, queue), each in sorted(self.archived.items())
        ]
        return found


def archive(
    spark: SparkSession, given: Input, folder: str, *, commit_messages: int = _COMMIT_MESSAGES
) -> ArchiveReport:
    """Bring the archive *folder* up to date.

    Args:
        spark: a session with the sources registered; its executors must see *folder*.
        given: live topics, or a store, with or without topic names. Whole queues: no times, tags or expressions.
        folder: created if needed.
        commit_messages: approximate number of messages in one commit.

    Raises:
        ConfigError: *given* is invalid.
        StoreError: *folder* is in a store or contains it; a topic was deleted and recreated, a store cannot be read,
            or its broker's name is missing.
        StoreLocked: another run is writing to the archive.
        ClientError: brokers do not respond.
        OSError: the archive cannot be written.
    """
    refuse(given)
    refuse_folder(given, folder)
    report = ArchiveReport(folder)
    with Archive(RealFiles(), Path(folder)) as held:
        (_of_store if given.store is not None else _of_topics)(spark, given, held, report, commit_messages)
        report.archived = {key: each for key, each in held.state.progress.items() if _named(given, key[1].topic)}
    return report


def refuse(given: Input) -> None:
    """Raise ConfigError if no archive can be made of *given*."""
    given.check()
    if given.archive is not None:
        raise ConfigError("an archive is written from live topics or a store; give --topic or --store")
    for name in ("since_ms", "until_ms", "tags", "sql92"):
        if getattr(given, name) is not None:
            option = "--" + name.removesuffix("_ms")
            raise ConfigError(
                f"an archive has whole queues, so that runs can continue it; remove {option}, which query supports"
            )


def refuse_folder(given: Input, folder: str) -> None:
    """Raise StoreError if *folder* is in a store or contains the store of *given*."""
    options = None if given.store is None else read_store_options({"path": given.store}, source="gantrymq.store")
    refuse_store_folder(RealFiles(), Path(folder), None if options is None else options.path)


def _of_topics(spark: SparkSession, given: Input, held: Archive, report: ArchiveReport, most: int) -> None:
    while True:
        bounds: dict[str, dict[Queue, tuple[int, int]]] = {}
        for queue, span in live_bounds(given).items():
            bounds.setdefault(queue.broker_name, {})[Queue(queue.topic, queue.queue_id)] = span
        refuse_unnamed(held.state, bounds, report.folder)
        wanted = [
            each
            for broker_name, queues in bounds.items()
            for each in next_ranges(held.state, broker_name, queues, most)
        ]
        if not wanted:
            return
        ranges = {
            MessageQueue(each.queue.topic, each.broker_name, each.queue.queue_id): (each.start, each.end)
            for each in wanted
            if each.end > each.start
        }
        lenient = attrs.evolve(given, options={"failOnDataLoss": "false", "bodyProblems": "keep", **given.options})
        _commit(live_ranges(spark, lenient, ranges), held, wanted, report, {})
        if sum(each.end - each.start for each in wanted) < most // 2:
            return  # the next run archives messages sent meanwhile


def _of_store(spark: SparkSession, given: Input, held: Archive, report: ArchiveReport, most: int) -> None:
    from pyspark.sql import functions as sql

    given = attrs.evolve(given, options={"systemTopics": "false", "bodyProblems": "keep", **given.options})
    read = read_store_options({"path": str(given.store), **store_texts(given)}, source="gantrymq.store")
    broker_name = read.broker_name or ""
    refuse_unnamed(held.state, [broker_name], report.folder)
    parts = plan_read(read)
    log_end = parts[-1].end if parts else 0
    places = messages(spark, given, ("topic", "queueId", "queueOffset"))
    spans = places.groupBy("topic", "queueId").agg(sql.min("queueOffset"), sql.max("queueOffset")).collect()
    bounds = {Queue(topic, queue_id): (first, last + 1) for topic, queue_id, first, last in spans}
    whole = {broker_name: log_end} if not given.topics and given.pattern is None else {}
    while True:
        wanted = next_ranges(held.state, broker_name, bounds, most)
        if not wanted and held.state.logs.get(broker_name, 0) >= whole.get(broker_name, 0):
            return
        done = sum(each.end - each.start for each in wanted) < most // 2
        _commit(messages(spark, given), held, wanted, report, whole if done else {})
        if done:
            return


def _commit(
    rows: DataFrame, held: Archive, wanted: Sequence[ArchiveRange], report: ArchiveReport, logs: Mapping[str, int]
) -> None:
    """Write the rows of the ranges *wanted* and commit them to the archive."""
    work = partial(_staged, str(held.root.absolute()), tuple(wanted))
    made = [_archived_file(row.file) for row in rows.mapInArrow(work, _MADE).collect()]
    progress = {each.key: each.after(held.state.progress.get(each.key)) for each in wanted}
    held.commit(made, progress, logs)
    report.commits += 1
    report.files += len(made)
    report.messages += sum(file.rows for file in made)
    report.bytes += sum(file.bytes for file in made)
    report.missing += sum(each.end - each.start for each in wanted) - sum(file.rows for file in made)
    report.lost += [
        (each.broker_name, each.queue.topic, each.queue.queue_id, *each.lost)
        for each in wanted
        if each.lost is not None
    ]


def _staged(root: str, wanted: Sequence[ArchiveRange], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the files of the selected rows in a task, and yield their descriptions for the commit."""
    files = RealFiles()

    def stage(name: str, data: bytes) -> int:
        files.replace(Path(root) / STAGING / name, data)
        return len(data)

    rows = (rows_in_ranges(batch, wanted) for batch in batches)
    texts = [json.dumps(attrs.asdict(file)) for file in staged_files(rows, stage, file_bytes=FILE_BYTES // 2)]
    yield pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], ["file"])


def _archived_file(text: str) -> ArchivedFile:
    found = json.loads(text)
    return ArchivedFile(**{**found, "queues": {int(queue): tuple(span) for queue, span in found["queues"].items()}})


def _named(given: Input, topic: str) -> bool:
    if given.pattern is not None:
        return re.fullmatch(given.pattern, topic) is not None
    return not given.topics or topic in given.topics
