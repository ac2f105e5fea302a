import pytest

from gantrymq.client.sending.results import SendFailed, SendStatus, read_send_reply
from gantrymq.errors import BrokerRefused, CallTimeout, ConnectFailed, NoRoute, RemoteProtocolError
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.command import Command

FIELDS = {"msgId": "ID", "queueId": "1", "queueOffset": "7"}


def read(reply: Command, unique_ids: tuple[str, ...] = ("MINE",)):
    return read_send_reply(reply, "b:1", MessageQueue("T", "broker-a", 3), unique_ids)


def test_recorded_reply_is_read(golden):
    result = read(golden("send reply"))
    assert result.ok
    assert result.queue == MessageQueue("T", "broker-a", 0)
    assert (result.message_id, result.offset_id) == ("MINE", "7F000002000051AF0000000000000000")
    assert (result.queue_offset, result.region, result.trace_on) == (0, "DefaultRegion", True)
    assert result.transaction_id == "7F0000012AB54E0E2F2A688EB5510000"


def test_reply_of_an_old_broker_has_no_transaction_id(golden):
    assert read(golden("send reply 4.9.7")).transaction_id is None


def test_batch_reply_keeps_the_ids_of_its_messages(golden):
    result = read(golden("batch reply"), tuple("ABCDE"))
    assert (result.message_id, result.message_ids) == ("A", tuple("ABCDE"))
    assert (result.offset_id, len(set(result.offset_ids))) == (result.offset_ids[0], 5)


def test_each_message_of_a_batch_has_a_result_of_its_own(golden):
    result = read(golden("batch reply"), tuple("ABCDE"))
    singles = result.each()
    assert [single.message_id for single in singles] == list("ABCDE")
    assert [single.offset_ids for single in singles] == [(each,) for each in result.offset_ids]
    assert [single.queue_offset - result.queue_offset for single in singles] == [0, 1, 2, 3, 4]
    assert {(single.queue, single.status) for single in singles} == {(result.queue, result.status)}
    assert singles[2].each() == (singles[2],)


def test_inner_batch_is_one_record_of_messages_with_ids():
    result = read(Command(0, ext={**FIELDS, "batchUniqId": "BATCH"}), ("A", "B"))
    assert (result.inner_batch_id, result.message_ids, result.offset_ids) == ("BATCH", ("A", "B"), ("ID",))
    singles = [(one.message_id, one.offset_id, one.queue_offset) for one in result.each()]
    assert singles == [("A", "ID", 7), ("B", "ID", 8)]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, SendStatus.SEND_OK),
        (10, SendStatus.FLUSH_DISK_TIMEOUT),
        (11, SendStatus.SLAVE_NOT_AVAILABLE),
        (12, SendStatus.FLUSH_SLAVE_TIMEOUT),
    ],
)
def test_stored_but_less_safely_is_a_status(code, status):
    assert read(Command(code, ext=FIELDS)).status is status


def test_other_codes_raise_with_code_and_remark():
    with pytest.raises(BrokerRefused, match="b:1 answered code 13: too long") as refused:
        read(Command(13, remark="too long"))
    assert refused.value.response_code == 13


def test_tracing_switched_off_is_seen():
    assert read(Command(0, ext={**FIELDS, "TRACE_ON": "false"})).trace_on is False


@pytest.mark.parametrize("ext", [None, {"msgId": "ID"}, {**FIELDS, "queueId": "one"}])
def test_garbled_reply_is_the_brokers_fault(ext):
    with pytest.raises(RemoteProtocolError, match="b:1"):
        read(Command(0, ext=ext))


@pytest.mark.parametrize(
    ("last", "code"),
    [(BrokerRefused(2, "busy", "b:1"), 2), (ConnectFailed(""), 10001), (CallTimeout(""), 10002), (NoRoute(""), 10003)],
)
def test_failure_carries_the_last_code_and_the_brokers(last, code):
    failure = SendFailed("T", ["a", "b"], last, 3.0)
    assert failure.response_code == code
    assert failure.brokers == ("a", "b")
    assert "T failed after 2 attempts at a, b" in str(failure)


def test_a_failure_after_many_attempts_names_each_broker_once():
    failure = SendFailed("T", ["a", "b"] * 70, CallTimeout(""), 3.0)
    assert "after 140 attempts at a, b:" in str(failure)
    assert len(failure.brokers) == 140
