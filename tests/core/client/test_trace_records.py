"""The format of message traces, compared with traces of a Java client 5.3.3 (data/java_traces.json, see
tests/interop/pack_traces.py).
"""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from gantrymq.client import (
    ConsumeContext,
    ConsumeOutcome,
    EndTransactionContext,
    Message,
    MessageQueue,
    SendContext,
    SendResult,
    SendStatus,
    TransactionState,
)
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.tracing.message_trace import TraceHook
from gantrymq.client.tracing.records import (
    EndTransaction,
    MessageType,
    Pub,
    SubAfter,
    SubBefore,
    decode_trace,
    encode_trace,
    trace_keys,
)
from gantrymq.errors import FormatError

JAVA = json.loads((Path(__file__).parent / "data" / "java_traces.json").read_text())
EVERY = [record for body in JAVA["bodies"] for record in decode_trace(body.encode())]
STATES = {
    "COMMIT_MESSAGE": TransactionState.COMMIT,
    "ROLLBACK_MESSAGE": TransactionState.ROLLBACK,
    "UNKNOW": TransactionState.UNKNOWN,
}


def of(kind):
    return [record for record in EVERY if isinstance(record, kind)]


def test_what_java_wrote_is_read_and_written_again_byte_for_byte():
    assert [len(of(kind)) for kind in (Pub, SubBefore, SubAfter, EndTransaction)] == [5, 2, 2, 4]
    for body, keys in zip(JAVA["bodies"], JAVA["keys"], strict=True):
        records = decode_trace(body.encode())
        assert encode_trace(records) == body
        assert sorted({key for record in records for key in trace_keys(record)}) == keys


def ours(now_ms, ids=()):
    """Return a hook and the list of its records."""
    found = []
    instance = SimpleNamespace(
        ids=SimpleNamespace(next=iter(ids).__next__),
        world=SimpleNamespace(clock=SimpleNamespace(now_ms=lambda: now_ms)),
    )
    return TraceHook("RMQ_SYS_TRACE_TOPIC", found.extend, instance), found


@pytest.mark.parametrize("java", of(Pub), ids=lambda java: java.message_id[-4:])
def test_our_hook_writes_of_a_send_what_java_writes(java):
    half = {"TRAN_MSG": "true"} if java.message_type is MessageType.TRANSACTION_HALF else {}
    message = Message(
        java.topic,
        b"x" * java.body_length,
        tags=java.tags,
        keys=java.keys,
        system_properties={"UNIQ_KEY": java.message_id, **half},
    )
    queue = MessageQueue(java.topic, "broker", 0)
    context = SendContext(
        kind="single",
        group=java.group,
        client_id="here",
        topic=java.topic,
        messages=(message,),
        queue=queue,
        started_ms=java.time_ms,
        duration_s=java.cost_ms / 1000 + 0.0005,
        broker_address=java.store_host,
        result=SendResult(SendStatus.SEND_OK, (java.message_id,), (java.offset_id,), queue, 0),
    )
    hook, found = ours(0)
    hook.before_send(context)
    hook.after_send(context)
    assert encode_trace(found) == encode_trace([java])


@pytest.mark.parametrize(
    "java", [(b, a) for b in of(SubBefore) for a in of(SubAfter) if a.request_id == b.request_id], ids=[0, 1]
)
def test_our_hook_writes_of_consumption_what_java_writes(java):
    before, after = java
    properties = {"UNIQ_KEY": before.message_id, "KEYS": before.keys, "MSG_REGION": before.region, "TRACE_ON": "true"}
    received = ReceivedMessage("Traced", b"x", properties, 0, 0, 0, 0, 0, 0, 0, "", 0, "", before.retry_times, 0, 0, "")
    queue = MessageQueue("Traced", "broker", 0)
    context = ConsumeContext(
        group=before.group,
        client_id="here",
        topic="Traced",
        queue=queue,
        messages=[received],
        batch=False,
        broadcasting=False,
        in_task=True,
        started_ms=before.time_ms,
    )
    hook, found = ours(after.time_ms, [before.request_id])
    hook.before_consume(context)
    context.outcome, context.consumed, context.duration_s = ConsumeOutcome.SUCCESS, 1, after.cost_ms / 1000 + 0.0005
    hook.after_consume(context)
    assert encode_trace(found) == encode_trace([before, after])


@pytest.mark.parametrize("java", of(EndTransaction), ids=lambda java: f"{java.state}-{java.from_check}")
def test_our_hook_writes_of_the_end_of_a_transaction_what_java_writes(java):
    hook, found = ours(java.time_ms)
    hook.end_transaction(
        EndTransactionContext(
            group=java.group,
            client_id="here",
            topic=java.topic,
            message=Message(java.topic, b"x", tags=java.tags, keys=java.keys),
            message_id=java.message_id,
            transaction_id=java.transaction_id,
            state=STATES[java.state],
            from_check=java.from_check,
            broker_address=java.store_host,
        )
    )
    assert encode_trace(found) == encode_trace([java])


def test_records_of_other_versions_are_read():
    old = "Pub\x011\x01r\x01g\x01t\x01id\x01\x01\x01h:1\x015\x012\x010\x01true\x02"  # without an offset id
    (found,) = decode_trace(old.encode())
    assert (found.offset_id, found.success, found.tags, found.keys) == (None, True, None, None)
    new = "Pub\x011\x01r\x01g\x01t\x01id\x01a\x01b\x01h:1\x015\x012\x013\x01off\x01false\x01client\x02"
    (found,) = decode_trace(new.encode())
    assert (found.offset_id, found.success, found.message_type) == ("off", False, MessageType.DELAY)
    cloud = "SubAfter\x01r\x01id\x013\x01true\x01k\x010\x01\x02"
    assert decode_trace(cloud.encode()) == (SubAfter("r", "id", 3, True, "k", 0),)
    assert decode_trace(b"Recall\x011\x01r\x01g\x01t\x01id\x01true\x02") == ()
    assert decode_trace(b"") == ()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"Pub\x011\x01r\x02", "has 2 fields, expected 13"),
        (b"SubBefore\x01x\x01r\x01g\x01q\x01id\x010\x01k\x02", "cannot be read"),
        (b"SubBefore\x01" + b"9" * 30 + b"\x01r\x01g\x01q\x01id\x010\x01k\x02", "more than 64 bits"),
        (b"\xff\xfe", "not"),
    ],
)
def test_what_is_no_trace_is_refused(body, sentence):
    with pytest.raises(FormatError, match=sentence):
        decode_trace(body)
