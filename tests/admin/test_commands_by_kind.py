"""The commands for kinds of messages answer scripts: documents on stdout, and 0, 1 or 2 as it went."""

import json
import re

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.client import Client
from gantrymq.interfaces import SendRequest
from gantrymq.loose_json import dumps
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest

for each in ("schedule", "transaction", "diagnosis", "filter_tag", "storage_memory"):
    pytest.importorskip(f"gantrymq_{each}")

HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01HALF\x02"
GOOD = (
    "group dlq list CG",
    "group dlq list -g CG",
    "group dlq show -g CG 0",
    "group dlq resend -g CG 0",
    "group progress CG",
    "group progress -g CG",
    "group list",
    "group list --by behind",
    "topic list",
    "topic list --by kept",
    "topic list --by put --contains T --max 1 --all",
    "group list --by late --contains c --max 3 --all",
    "group create New",
    "group delete New",
    "group explain -g CG",
    "group reset -g CG -t T --to earliest",
    "group clone -s CG -g Copy",
    "topic status T",
    "topic status -t T",
    "topic route T",
    "topic create New",
    "topic delete New",
    "message send -t T --body later --delay 1h",
    "message send -t T --body later --deliver-at +1h",
    "nameserver config get",
    "nameserver config get listenPort",
    "broker write-perm wipe broker-a",
    "broker write-perm add broker-a",
    "group dlq show CG 0",
    "group dlq resend CG 0",
    "group reset CG -t T --to earliest",
    "group clone CG Copy",
    "group explain CG",
    "message pending",
    "transactions list",
    "transactions list --given-up",
    "transactions show HALF",
)
REFUSED = (  # by the broker, or by what is there
    "broker config set nosuchKey=1",
    "broker config set flushDiskType=WHATEVER",
    "message pull -t T --expression-type SQL",
    "group dlq list Nobody",
    "group dlq show CG 99",
    "group dlq resend CG 99",
    "group reset CG -t Nowhere --to earliest",
    "group clone Nobody Copy",
    "group explain Nobody",
    "message pending -c Nowhere",
    "transactions list -c Nowhere",
    "transactions show NOBODY",
    "transactions resume NOBODY",
)
WRONG = (
    "group progress",
    "group progress CG -g Other",
    "group dlq show -g CG",
    "group dlq CG list",
    "topic status",
    "topic list -b 127.0.0.1:1",
    "topic list --by age",
    "group list --by age",
    "topic status T -t Other",
    "message view zzz",
    "message send -t T --body x --delay soon",
    "message send -t T --body x --delay 1s --deliver-at +1h",
    "message send -t T --body x --property TAGS=oops",
    "message recall handle -t T",
    "status -n localhost:abc",
    "config --set maxMessageSize=10GB",
    "nameserver config set listenPort",
    "group dlq",
    "group dlq show CG x",
    "group dlq resend CG",
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
    """Broker broker-a with group CG, which has a dead letter, a delayed message and an undecided transaction."""
    from gantrymq_testing.running_broker import RunningBroker

    running = RunningBroker(tmp_path_factory.mktemp("broker"), {"brokerName": "broker-a", "recallMessageEnable": True})
    running.start()
    running.create_topic("T", 1)

    async def work():
        sent = await running.cluster.send("T", b"dead")
        await running.cluster.send("T", b"later", system_properties={"DELAY": "18"})
        await running.broker.messages.send(SendRequest("PG", "T", b"half", HALF, queue_id=0, sys_flag=4))
        async with Client(running.namesrv) as client, client.admin as admin:
            subscription = {"topic": "T", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
            consumer = {"groupName": "CG", "subscriptionDataSet": [subscription]}
            body = dumps({"clientID": "c1", "consumerDataSet": [consumer]})
            await admin.request(running.broker_address, RequestCode.HEART_BEAT, body=body)
            back = ConsumerSendMsgBackRequest(
                offset=int(sent.offset_id[16:], 16), group="CG", delay_level=-1, origin_topic="T"
            )
            await admin.request(running.broker_address, RequestCode.CONSUMER_SEND_MSG_BACK, back)
            await admin.route("%DLQ%CG")

    running.run(work())
    yield running.namesrv
    running.stop()


def asked(words, namesrv, *more):
    words = words.split()
    where = [] if "-n" in words or words[0] == "config" else ["-n", namesrv]
    return CliRunner().invoke(main, [*words, *where, *more])


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


def test_every_member_of_a_document_is_in_snake_case(namesrv):
    """But for what is data: names of settings, clusters and properties."""
    for words in GOOD:
        document = json.loads(asked(words, namesrv, "--output", "json").stdout)
        assert [name for name in members(document) if not re.fullmatch(r"[a-z][a-z0-9_]*", name)] == [], words


def members(document):
    """Yield the names of all members but those below members that hold data, such as settings by name."""
    if isinstance(document, list):
        for each in document:
            yield from members(each)
    elif isinstance(document, dict):
        for name, value in document.items():
            yield name
            if name not in ("settings", "properties", "addresses", "sources", "by_topic", "next_offset"):
                yield from members(value)


def test_a_timed_message_is_taken_back_by_the_handle_that_its_sending_printed(namesrv):
    sent = json.loads(asked("message send -t T --body later --delay 1h", namesrv, "--output", "json").stdout)
    done = asked(f"message recall {sent['recall_handle']} -t T", namesrv, "--output", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"topic": "T", "message_id": sent["message_id"]}


def test_undecided_transactions_tell_when_their_producer_is_asked_next(namesrv):
    (broker,) = json.loads(asked("transactions list", namesrv, "--output", "json").stdout)["brokers"]
    (half,) = broker["transactions"]
    assert half["next_check_ms"] > half["born_ms"] + 6000
    assert re.search(r"in \d+ s", asked("transactions list", namesrv).stdout)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("message pull -t T --expression-type SQL", "(did you mean SQL92?)"),
        ("broker config set maxMesageSize=4096", "(did you mean maxMessageSize?)"),
        ("broker config set flushDiskType=WHATEVER", "flushDiskType is read at the start only"),
        ("group dlq CG list", "The command comes before the name: main group dlq list CG"),
        ("message send -t T --body x --property KEYS=a", "KEYS has an option of its own: --keys"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(namesrv, words, sentence):
    assert sentence in asked(words, namesrv).stderr


def test_sorted_lists_show_tables_and_how_many_are_left_out(namesrv):
    shown = asked("group list --by behind", namesrv)
    assert re.search(r"CG +broker-a +\d", shown.stdout)
    shown = asked("topic list --by name --all --max 1", namesrv)
    assert "more such topics; show more with --max" in shown.stderr
    assert re.search(r"T +broker-a +1 +\d", asked("topic list --by put", namesrv).stdout)
