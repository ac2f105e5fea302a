"""The sources gantrymq.store and gantrymq.damage in Spark itself."""

import os

import pytest
from golden_stores import SCENARIOS
from spark_columns import described, golden_names, recorded

from gantrymq_spark.columns import COLUMNS, spark_schema

pytestmark = pytest.mark.spark


def store(session, scenario, **options):
    return session.read.format("gantrymq.store").options(**options).load(str(scenario.store))


@pytest.mark.parametrize("name", golden_names(SCENARIOS, ("crash/torn", "innerbatch", "normal", "v550")))
def test_a_data_frame_is_what_java_reads(session, golden, name):
    scenario = golden(name)
    frame = store(session, scenario, storedBodies="true", maxBytesPerPartition="100k", brokerName="broker-a")
    assert frame.columns == list(COLUMNS)
    rows = sorted((row.asDict() for row in frame.collect()), key=lambda row: row["commitLogOffset"])
    said = recorded(scenario.records)
    if name == "crash/torn":
        assert said.pop()["topic"] == ""
    size = scenario.size("mappedFileSizeCommitLog")
    assert [described({**row, "body": bytes(row["body"])}, size) for row in rows] == said
    assert {row["brokerName"] for row in rows} == {"broker-a"}


def test_columns_by_option_and_by_schema(session, golden):
    scenario = golden("normal")
    names = ["tags", "queueOffset", "storeTimestamp"]
    by_option = store(session, scenario, columns=",".join(names))
    by_schema = session.read.format("gantrymq.store").schema(spark_schema(names)).load(str(scenario.store))
    assert by_option.columns == by_schema.columns == names
    whole = store(session, scenario).select(*names)
    assert (
        sorted(by_option.collect(), key=str) == sorted(by_schema.collect(), key=str) == sorted(whole.collect(), key=str)
    )


@pytest.mark.parametrize(
    ("options", "ddl", "sentence"),
    [
        ({"colums": "tags"}, None, "the source gantrymq.store has no option colums; did you mean columns?"),
        ({"columns": "tag"}, None, "option columns: 'tag' is not a column of a message"),
        ({}, "tag string", "the source gantrymq.store has no column 'tag'; the columns are topic,"),
        ({}, "queueId bigint", "column queueId of the source gantrymq.store is int, not bigint"),
    ],
)
def test_a_mistake_is_one_sentence(session, golden, options, ddl, sentence):
    reader = session.read.format("gantrymq.store").options(**options)
    with pytest.raises(Exception, match="gantrymq") as problem:  # Spark's own kinds, around ours
        (reader.schema(ddl) if ddl else reader).load(str(golden("batch").store)).collect()
    assert sentence in str(problem.value)


def test_damage_is_rows_of_a_source_of_its_own(session, golden_copy):
    scenario = golden_copy("crash/recovered")
    record = scenario.log_records()[20]
    path = scenario.store / "commitlog" / f"{0:020}"
    with path.open("r+b") as file:
        file.seek(record.log_offset + 88)
        file.write(bytes([record.body[0] ^ 1]))
    assert store(session, scenario).count() == len(recorded(scenario.records)) - 1
    found = session.read.format("gantrymq.damage").load(str(scenario.store)).collect()
    assert [(row.path, row.kind, row.damage, row.commitLogOffset, row["size"]) for row in found] == [
        (str(path), "damaged", True, record.log_offset, record.total_size)
    ]
    assert session.read.format("gantrymq.damage").load(str(golden_copy("batch").store)).count() == 0


def test_a_stream_goes_on_where_its_checkpoint_stands(session, golden, tmp_path):
    scenario = golden("crash/recovered")
    folder = tmp_path / "store" / "commitlog"
    folder.mkdir(parents=True)
    (tmp_path / "store" / "abort").touch()
    whole = [path.read_bytes() for path in scenario.log_files()]
    size = len(whole[0])
    for shown in (1_000, size + 5_000, size * 3 + 777, size * len(whole)):  # mostly inside a record
        for number, data in enumerate(whole):
            length = max(0, min(size, shown - number * size))
            if length:
                (folder / f"{number * size:020}").write_bytes(data[:length].ljust(size, b"\0"))
        query = (
            session.readStream.format("gantrymq.store")
            .options(columns="commitLogOffset,topic", maxBytesPerTrigger="60k")
            .load(str(tmp_path / "store"))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "rows"))
        )
        assert query.awaitTermination(120)
    rows = session.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted(row.commitLogOffset for row in rows) == [
        line["commitLogOffset"] for line in recorded(scenario.records)
    ]
    assert len(os.listdir(tmp_path / "checkpoint" / "commits")) > 4
