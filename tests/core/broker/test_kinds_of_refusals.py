"""Each kind of refusal of a send is a class of its own, with the response code that clients know."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from gantrymq.errors import (
    BodyEmpty,
    BodyTooLarge,
    DiskFull,
    GroupNotExist,
    NameIllegal,
    NotWritable,
    PropertiesTooLarge,
    TopicNotExist,
)
from gantrymq.formats.batch_body import BatchEntry, encode_batch
from gantrymq.interfaces import PutResult, PutStatus, SendBackRequest, SendRequest, StoreMessage
from gantrymq_testing.simulation import simulate_cluster

needs_a_store = pytest.mark.skipif(
    find_spec("gantrymq_storage_memory") is None, reason="needs the plugin storage_memory"
)
LONG = "k\x01" + "x" * 32_000 + "\x02"
BATCH = encode_batch([BatchEntry(0, b"x" * 5_000, b"")])
LIMITS = {"maxMessageSize": 4096, "autoCreateTopicEnable": False, "autoCreateSubscriptionGroup": False}


@needs_a_store
@pytest.mark.parametrize(
    ("request_", "kind", "code", "sentence"),
    [
        (SendRequest("PG", "T", None), BodyEmpty, 13, "has no body"),
        (SendRequest("PG", "T", b""), BodyEmpty, 13, "has no body"),
        (SendRequest("PG", "T", b"x" * 4097), BodyTooLarge, 13, "maxMessageSize is 4096"),
        (SendRequest("PG", "T", BATCH, batch=True), BodyTooLarge, 13, "over the limit of 4096 (maxMessageSize)"),
        (SendRequest("PG", "T", b"1", LONG), PropertiesTooLarge, 13, "the properties"),
        (SendRequest("PG", "a b", b"1"), NameIllegal, 29, "has a character outside"),
        (SendRequest("PG", "Nope", b"1"), TopicNotExist, 17, "gantrymq topic create -t Nope"),
    ],
)
def test_a_send_that_is_refused(request_, kind, code, sentence):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        with pytest.raises(kind) as refused:
            await cluster.broker.messages.send(request_)
        assert (refused.value.response_code, sentence in str(refused.value)) == (code, True), str(refused.value)

    simulate_cluster(main, settings=LIMITS)


@needs_a_store
def test_a_group_that_does_not_exist_and_a_broker_that_may_not_be_written():
    async def main(cluster):
        with pytest.raises(GroupNotExist):
            await cluster.broker.messages.send_back(SendBackRequest("Nope", 0))

    async def read_only(cluster):
        with pytest.raises(NotWritable, match="brokerPermission forbids writing") as refused:
            await cluster.broker.messages.send_back(SendBackRequest("CG", 0))
        assert refused.value.response_code == 16

    simulate_cluster(main, settings=LIMITS)
    simulate_cluster(read_only, settings={"brokerPermission": 4})


@needs_a_store
@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [(PutStatus.DISK_FULL, DiskFull, 14), (PutStatus.PROPERTIES_TOO_LARGE, PropertiesTooLarge, 13)],
)
def test_a_refusal_of_the_store(monkeypatch, status, kind, code):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        broker = cluster.broker
        refused = PutResult(status, -1, -1, 0, 0, "not now")
        monkeypatch.setattr(broker.store, "put", lambda messages: [refused] * len(messages))
        with pytest.raises(kind, match="not now") as sent:
            await broker.messages.send(SendRequest("PG", "T", b"1"))
        with pytest.raises(kind, match="not now"):
            await broker.messages.put(StoreMessage("T", 0, b"1", b"", store_host=broker.store_host))
        assert sent.value.response_code == code
        assert status.is_illegal == (code == 13)

    simulate_cluster(main)
