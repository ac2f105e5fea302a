"""Options of the sources over a store's folder: their values, and the sentence for each mistake."""

from pathlib import Path

import pytest

from gantrymq.errors import ConfigError
from gantrymq_spark.columns import COLUMNS
from gantrymq_spark.store_options import DAMAGE_OPTIONS, StoreOptions, read_store_options


def read(**given):
    return read_store_options({"path": "/store", **given}, source="gantrymq.store")


def test_only_a_path_is_needed():
    assert read() == StoreOptions(Path("/store"), columns=tuple(COLUMNS))


def test_names_count_in_any_case():
    options = read(
        CHECKCRC="false",
        columns="tags, queueOffset",
        storedbodies="TRUE",
        bodyProblems="Keep",
        systemTopics="false",
        brokerName="broker-a",
        failondataloss="false",
        startingOffsets="17",
        maxBytesPerTrigger="3m",
        maxBytesPerPartition="64KB",
    )
    assert options == StoreOptions(
        Path("/store"),
        check_crc=False,
        split_bytes=65536,
        columns=("tags", "queueOffset"),
        stored_bodies=True,
        body_problems="keep",
        system_topics=False,
        broker_name="broker-a",
        fail_on_data_loss=False,
        starting=17,
        trigger_bytes=3 * 1024**2,
    )


@pytest.mark.parametrize(("text", "meant"), [("-2", "earliest"), ("Latest", "latest"), ("-1", "latest"), ("0", 0)])
def test_where_a_stream_starts(text, meant):
    assert read(startingOffsets=text).starting == meant


@pytest.mark.parametrize(("path", "folder"), [("file:///a/b", "/a/b"), ("file:/a/b", "/a/b"), (" /a b ", "/a b")])
def test_paths_as_spark_writes_them(path, folder):
    assert read(path=path).path == Path(folder)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"path": ""}, "needs a folder"),
        ({"path": "hdfs://a/b"}, "'hdfs://a/b' is not a folder"),
        ({"colums": "tags"}, "no option colums; did you mean columns?"),
        ({"zzz": "1"}, "no option zzz; the options are path, checkCrc"),
        ({"checkCrc": "yes"}, "option checkCrc: 'yes' is neither true nor false"),
        ({"bodyProblems": "skip"}, "option bodyProblems: 'skip' is not one of null, keep, fail"),
        ({"columns": "tag"}, "option columns: 'tag' is not a column of a message; the columns are topic,"),
        ({"columns": "tags,tags"}, "'tags' is named 2 times"),
        ({"columns": ""}, "'' is not a column"),
        ({"maxBytesPerPartition": "0"}, "option maxBytesPerPartition: '0' is not a size"),
        ({"maxBytesPerTrigger": "1t"}, "'1t' is not a size"),
        ({"startingOffsets": "-3"}, "'-3' is neither earliest, latest nor a log offset"),
        ({"startingOffsets": "{}"}, "is neither earliest"),
    ],
)
def test_a_mistake_is_one_sentence(given, sentence):
    with pytest.raises(ConfigError) as problem:
        read(**given)
    assert sentence in str(problem.value)
    assert "\n" not in str(problem.value)


def test_damage_has_fewer_options():
    with pytest.raises(ConfigError, match="the source gantrymq.damage has no option columns; the options are path"):
        read_store_options({"path": "/a", "columns": "tags"}, source="gantrymq.damage", known=DAMAGE_OPTIONS)
