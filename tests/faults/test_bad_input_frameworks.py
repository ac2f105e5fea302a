"""Errors of the Spark source and sink and of the broker for FastStream; no server is contacted."""

import asyncio
import datetime
import sys
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.errors import ConfigError, FormatError
from gantrymq.formats.record import encode_record
from gantrymq.model.sys_flag import COMPRESSED

SPOILT = b"these bytes are no stream"

needs_spark = pytest.mark.skipif(
    not (find_spec("gantrymq_spark") and find_spec("pyarrow")), reason="needs gantrymq-spark with pyarrow"
)
needs_faststream = pytest.mark.skipif(find_spec("gantrymq_faststream") is None, reason="needs gantrymq-faststream")


def sent(zone, times):
    """The messages that the sink would send for rows with *times*."""
    import pyarrow as pa

    from gantrymq_spark.sink.options import read_options
    from gantrymq_spark.sink.rows import RowConverter

    options = read_options({"namesrv": "n:1", "topic": "T"}, streaming=False, environ={})
    batch = pa.record_batch({"body": ["x"] * len(times), "deliverTime": pa.array(times)})
    return list(RowConverter(options, "partition 2", "p", zone).messages(batch))


@needs_spark
def test_bi267_a_delivery_time_before_1970(row):
    assert [each.message.all_properties()["TIMER_DELIVER_MS"] for each in sent("UTC", [5])] == ["5"]
    early = datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
    for times, time in (([5, -5], -5), ([datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), early], -1000)):
        with pytest.raises(ConfigError) as refused:
            sent("UTC", times)
        row.check(str(refused.value), "raises", row=1, task="partition 2", time=time)


@needs_spark
def test_bi268_a_delivery_time_in_a_zone_that_is_not_known(row):
    moment = datetime.datetime(2026, 1, 1)
    assert len(sent("Asia/Shanghai", [moment])) == 1
    with pytest.raises(ConfigError) as refused:
        sent("Mars/Base", [moment])
    row.check(str(refused.value), "raises", zone="Mars/Base")


@needs_spark
def test_bi269_a_body_that_cannot_be_decompressed(row):
    from gantrymq_spark.batches import NO_LOG, record_batch
    from gantrymq_spark.live.range_reader import record_positions

    kinds = (b"one", 0), (SPOILT, COMPRESSED), (b"three", 0)
    data = b"".join(
        encode_record(topic="Odd", queue_id=1, queue_offset=offset, body=body, properties=b"", sys_flag=flag)
        for offset, (body, flag) in enumerate(kinds, 7)
    )

    def bodies(problems):
        read = record_batch(data, record_positions(data), NO_LOG, None, body_problems=problems).to_pylist()
        return [each["body"] for each in read], read[1]["bodyProblem"]

    given, problem = bodies("null")
    assert given == [b"one", None, b"three"]
    assert bodies("keep") == ([b"one", SPOILT, b"three"], problem)
    with pytest.raises(FormatError) as refused:
        bodies("fail")
    why = problem.partition("is not a zlib stream: ")[2]
    row.check(str(refused.value), "raises", topic="Odd", queue=1, offset=8, size=len(SPOILT), why=why)


@needs_faststream
def test_bi270_a_handler_of_a_batch_with_a_list_of_messages(row):
    from faststream.exceptions import SetupError

    from gantrymq_faststream import GantryBroker
    from gantrymq_faststream.annotations import GantryMessage

    subscriber = GantryBroker().subscriber("Orders", group="billing", batch=True)

    async def bill(orders: list[GantryMessage]): ...

    with pytest.raises(SetupError) as refused:
        subscriber(bill)
    row.check(str(refused.value), "raises", name="orders", group="billing")
    assert not subscriber.calls


@needs_faststream
def test_bi271_a_result_that_can_never_be_published(row):
    from gantrymq_faststream import GantryBroker, ResultNotPublished, TestGantryBroker

    broker, handled = GantryBroker(), []

    @broker.subscriber("Orders", group="billing")
    @broker.publisher("Invoices")
    async def bill(order: int):
        handled.append(order)
        return b"" if order == 1 else b"invoice"

    async def work():
        async with TestGantryBroker(broker):
            with pytest.raises(ResultNotPublished) as refused:
                await broker.publish(1, "Orders")
            await broker.publish(2, "Orders")
        return refused.value

    error = asyncio.run(work())
    row.check(str(error), "raises", group="billing", topic="Invoices", why=error.__cause__)
    assert handled == [1, 2]


@needs_spark
def test_bi378_output_inside_a_store(row, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gantrymq_spark.session", None)
    store = tmp_path / "store"
    for name in ("commitlog", "consumequeue"):
        (store / name).mkdir(parents=True)
    folder = store / "out"
    for words in (
        ("archive", folder, "--store", store),
        ("query", "--topic", "T", "--to", folder),
        ("stats", "--topic", "T", "--report", folder),
    ):
        done = CliRunner().invoke(main, ["pipeline", *map(str, words)])
        row.check(done.stderr.removeprefix("gantrymq: "), f"exit {done.exit_code}", folder=folder, store=store)
        assert not folder.exists()
