"""Spark writes messages to a Java broker, and an official Java consumer receives them."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Driver, create_topic
from harness.peers import used

from gantrymq.model.java import string_hash

pytestmark = pytest.mark.interop

QUEUES, COUNT = 4, 400


def test_a_java_consumer_gets_the_rows_of_a_frame(
    java_servers: Callable[[str], tuple[str, str]], spark: Any, tmp_path: Path, topic: str
) -> None:
    """Body, keys, tags, properties, delay, and the order of each sharding key, in the queue that Java chooses."""
    from gantrymq_spark import register

    namesrv = java_servers("5.3.3")[0]
    create_topic(namesrv, topic, QUEUES)
    used("gantrymq-spark")
    register(spark)
    consumer = Driver("5.3.3", tmp_path, namesrv).push(topic, f"{topic}-group")
    frame = spark.range(0, COUNT, 1, 2).selectExpr(
        "concat('body ', id) as body",
        "concat('k', id) as keys",
        "concat('t', id % 3) as tags",
        "map('number', cast(id as string), 'UNIQ_KEY', 'x', 'DELAY', '9') as properties",
        "if(id % 5 = 0, null, concat('key-', id % 13)) as shardingKey",
        "if(id % 50 = 0, 1, 0) as delayLevel",
    )
    frame.write.format("gantrymq").option("namesrv", namesrv).option("topic", topic).mode("append").save()
    consumer.wait_for(lambda p: len(p.of("received")) >= COUNT, f"{COUNT} messages")
    received = {int(each["properties"]["number"]): each for each in consumer.of("received")}
    assert sorted(received) == list(range(COUNT))
    last: dict[tuple[str, int], int] = {}
    for number, each in sorted(received.items()):
        assert each["bodySha256"] == hashlib.sha256(f"body {number}".encode()).hexdigest()
        assert (each["keys"], each["tags"]) == (f"k{number}", f"t{number % 3}")
        assert each["properties"]["GANTRYMQ_SINK_ID"].count("/") == 2
        assert each["properties"]["UNIQ_KEY"] != "x"
        late_ms = each["storeTimestamp"] - each["bornTimestamp"]
        assert late_ms >= (900 if number % 50 == 0 else 0)
        if number % 5:
            key = f"key-{number % 13}"
            assert each["properties"]["__SHARDINGKEY"] == key
            assert each["queueId"] == abs(string_hash(key)) % QUEUES
            place = key, number // (COUNT // 2)  # each task keeps its own order
            assert each["queueOffset"] > last.get(place, -1)
            last[place] = each["queueOffset"]

    late = spark.sql("select 'x' as body, 2000L as delayMs").write.format("gantrymq")
    with pytest.raises(Exception, match="timerWheelEnable is false"):  # as the broker reports it
        late.option("namesrv", namesrv).option("topic", topic).mode("append").save()
