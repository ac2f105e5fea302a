"""The commands for kinds of messages answer scripts: documents on stdout, and 0, 1 or 2 as it went."""

import json

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.client import Admin
from gantrymq.interfaces import SendRequest
from gantrymq.loose_json import dumps
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest

for each in ("schedule", "transaction", "diagnosis", "filter_tag", "storage_memory"):
    pytest.importorskip(f"gantrymq_{each}")

HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01HALF\x02"
GOOD = (
    "group dlq CG list",
    "group dlq CG show 0",
    "group dlq CG resend 0",
    "group reset CG -t T --to earliest",
    "group clone CG Copy",
    "group explain CG",
    "message pending",
    "transactions list",
    "transactions list --given-up",
    "transactions show HALF",
)
REFUSED = (  # by the broker, or by what is there
    "group dlq Nobody list",
    "group dlq CG show 99",
    "group dlq CG resend 99",
    "group reset CG -t Nowhere --to earliest",
    "group clone Nobody Copy",
    "group explain Nobody",
    "message pending -c Nowhere",
    "transactions list -c Nowhere",
    "transactions show NOBODY",
    "transactions resume NOBODY",
)
WRONG = (
    "group dlq",
    "group dlq CG show x",
    "group dlq CG resend",
    "group reset CG -t T",
    "group reset CG -t T --to yesterday-ish",
    "group clone CG",
    "group explain",
    "message pending --max 0",
    "transactions list --max 0",
    "transactions show",
    "transactions resume",
    "transactions list -b nowhere",
)


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory):
    """A broker with group CG, which has a dead letter, a delayed message and an undecided transaction."""
    from gantrymq_testing.running_broker import RunningBroker

    running = RunningBroker(tmp_path_factory.mktemp("broker"))
    running.start()
    running.create_topic("T", 1)

    async def work():
        sent = await running.cluster.send("T", b"dead")
        await running.cluster.send("T", b"later", system_properties={"DELAY": "18"})
        await running.broker.send(SendRequest("PG", "T", b"half", HALF, queue_id=0, sys_flag=4))
        async with Admin(running.namesrv) as admin:
            subscription = {"topic": "T", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
            consumer = {"groupName": "CG", "subscriptionDataSet": [subscription]}
            body = dumps({"clientID": "c1", "consumerDataSet": [consumer]})
            await admin.ask(running.broker_address, RequestCode.HEART_BEAT, body=body)
            back = ConsumerSendMsgBackRequest(
                offset=int(sent.offset_id[16:], 16), group="CG", delay_level=-1, origin_topic="T"
            )
            await admin.ask(running.broker_address, RequestCode.CONSUMER_SEND_MSG_BACK, back)
            await admin.route("%DLQ%CG")

    running.run(work())
    yield running.namesrv
    running.stop()


def asked(words, namesrv, *more):
    return CliRunner().invoke(main, [*words.split(), "-n", namesrv, *more])


@pytest.mark.parametrize("words", GOOD)
def test_what_can_be_done_is_0_with_one_document(namesrv, words):
    done = asked(words, namesrv, "--output", "json")
    assert (done.exit_code, done.stderr) == (0, done.stderr), done.output
    assert isinstance(json.loads(done.stdout), dict)


@pytest.mark.parametrize("words", REFUSED)
def test_what_the_data_does_not_allow_is_1_with_a_sentence(namesrv, words):
    done = asked(words, namesrv, "--output", "json")
    assert done.exit_code == 1, done.output
    told = json.loads(done.stdout)
    assert f"gantrymq: {told['message']}" in done.stderr
    assert told["error"].isidentifier()


@pytest.mark.parametrize("words", WRONG)
def test_wrong_usage_is_2(namesrv, words):
    done = asked(words, namesrv)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert done.stderr
