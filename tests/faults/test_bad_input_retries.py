"""Failed messages that cannot be retried, and dead letters that do not exist."""

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.formats.batch_body import encode_batch
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode

LONG_AGO = 10**15
OWN_ID = "UNIQ_KEY\x01x\x02"


@pytest.fixture
def refuses(broker, row):
    """Send a message back; compare code and sentence with the row, and check that nothing was stored."""

    def check(offset=None, /, fields=(), **values):
        with broker.peer() as peer:
            if offset is None:
                offset = log_offset(peer.send("T"))
            end = broker.server.store.state().max_log_offset
            usual = {"offset": offset, "group": "CG", "delayLevel": 0, "originTopic": "T"}
            answer = peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, {**usual, **dict(fields)})
            row.check(answer.remark, answer.code, **values)
            assert broker.server.store.state().max_log_offset == end

    return check


def log_offset(sent):
    assert sent.code == 0, sent.remark
    return int(sent.ext["msgId"][16:], 16)


def test_bi174_a_failed_message_that_does_not_exist(broker, refuses):
    with broker.peer() as peer:
        peer.send("T")
    state = broker.server.store.state()
    refuses(LONG_AGO, offset=LONG_AGO, first=state.min_log_offset, end=state.published_offset)


def test_bi175_a_failed_message_of_a_group_that_cannot_be(refuses):
    refuses(None, {"group": "a/b"}, group="'a/b'")


@pytest.mark.parametrize(("asked", "level"), [(0, 3), (2, 2), (2**31 - 1, 2**31 - 1)])
def test_bi176_a_failed_message_without_a_delay_service(refuses, asked, level):
    refuses(None, {"delayLevel": asked}, level=level)


@pytest.mark.parametrize("level", [2**31, "soon"])
def test_bi177_a_delay_level_that_is_no_number(refuses, level):
    refuses(None, {"delayLevel": level}, level=level)


def test_bi178_a_failed_message_whose_retry_topic_takes_none(broker, refuses):
    with broker.peer() as peer:
        assert peer.create_topic("%RETRY%Closed", perm=4).code == 0
    refuses(None, {"group": "Closed"}, topic="%RETRY%Closed", perm=4)


def test_bi179_a_message_of_a_batch_that_is_one_record(broker, refuses):
    with broker.peer() as peer:
        assert peer.create_topic("Batches", attributes="+queue.type=BatchCQ").code == 0
        body = encode_batch([(0, each, b"") for each in (b"one", b"two")])
        sent = peer.ask(
            RequestCode.SEND_BATCH_MESSAGE,
            dict(
                zip("abcdefghim", ("P", "Batches", "TBW102", 4, 0, 0, 1, 0, "UNIQ_KEY\x01x\x02", "true"), strict=True)
            ),
            body,
        )
        offset = log_offset(sent)
    refuses(offset, offset=offset)


def test_bi180_a_topic_for_messages_of_mixed_kinds(broker, row):
    with broker.peer() as peer:
        answer = peer.create_topic("Mixed", attributes="+message.type=MIXED")
        row.check(answer.remark, answer.code, topic="Mixed")
        assert peer.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "Mixed"}).code == 17


@pytest.fixture
def says(gantrymq_broker_factory, row):
    """Run ``group dlq``; compare its result with the row."""
    server = gantrymq_broker_factory({"store": "memory"})
    for name in ("%RETRY%CG", "%DLQ%CG"):
        server.create_topic(name, 1)

    def check(*words, topic=None, **values):
        if topic is not None:
            server.call(server.broker.topics.put, topic)
        done = CliRunner().invoke(main, ["group", "dlq", *words, "-n", server.namesrv])
        row.check(done.stderr.removeprefix("gantrymq: "), f"exit {done.exit_code}", **values)

    return check


def test_bi181_the_dead_letters_of_an_unknown_group(says):
    says("list", "Nobody", group="Nobody")


def test_bi182_a_dead_letter_that_is_not_there(says):
    says("show", "CG", "7", group="CG", offset=7)


def test_bi183_dead_letters_that_may_not_be_read(says):
    says("resend", "CG", "--all", topic=TopicConfig("%DLQ%CG", 1, 1, 2), topic_name="%DLQ%CG")
