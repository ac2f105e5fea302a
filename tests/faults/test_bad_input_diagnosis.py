"""Consumers that disagree with their group, and groups that cannot be explained."""

from importlib.util import find_spec

import pytest
from click.testing import CliRunner
from faulty_broker import start_broker

from gantrymq.cli import main
from gantrymq.loose_json import dumps
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, encode

if find_spec("gantrymq_diagnosis") is None or find_spec("gantrymq_admin") is None:
    pytest.skip("needs gantrymq-diagnosis and gantrymq-admin", allow_module_level=True)

EXPLAIN_GROUP = 65021
DELETE_OFFSETS = 65027
PAGES = {65023: "behind, late, name", 65024: "name, since, heard", 65025: "name, kept, put, got"}
COLUMNS = {
    65023: "behind, late, members, retries, dead_letters, rate",
    65025: "type, kept, newest, put, got, groups, queues",
}
HEARD = 9  # opaque of heartbeats
WITHOUT_IT = {"plugins": "filter_tag,storage_mmap"}
WITH_IT = {"plugins": "filter_tag,storage_mmap,diagnosis"}
REFUSE = {**WITH_IT, "consumerConflictPolicy": "refuse"}


def beat(peer, client_id, expression="*"):
    """The answer to a heartbeat of one member of group CG that reads topic T; notices to members are left out."""
    wanted = [{"topic": "T", "subString": expression, "subVersion": 1, "expressionType": "TAG"}]
    body = dumps({"clientID": client_id, "consumerDataSet": [{"groupName": "CG", "subscriptionDataSet": wanted}]})
    peer.write(encode(Command(RequestCode.HEART_BEAT, opaque=HEARD, body=body)))
    while (answer := peer.answer()).opaque != HEARD:
        pass
    return answer


def member_ids(running):
    with running.peer() as peer:
        return bytes(peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "CG"}).payload)


@pytest.fixture(scope="module")
def one_with_it(tmp_path_factory):
    """A broker with the plugin, for all tests of this module."""
    running = start_broker(tmp_path_factory.mktemp("diagnosis") / "store", **WITH_IT)
    yield running
    running.close()


@pytest.fixture
def watching(one_with_it, logged):
    yield one_with_it
    assert one_with_it.serves()


@pytest.mark.parametrize("fields", [{}, {"consumerGroup": ""}])
def test_bi194_no_group_to_explain(watching, row, fields):
    with watching.peer() as peer:
        answer = peer.ask(EXPLAIN_GROUP, fields)
        row.check(answer.remark, answer.code)


def test_bi195_a_group_that_is_not_there(watching, row):
    with watching.peer() as peer:
        answer = peer.ask(EXPLAIN_GROUP, {"consumerGroup": "Nobody"})
        row.check(answer.remark, answer.code, group="Nobody")
        assert peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "Nobody"}).code == 26


def test_bi196_a_topic_that_is_not_there(watching, row):
    with watching.peer() as peer:
        assert beat(peer, "c").code == 0
    with watching.peer() as peer:
        answer = peer.ask(EXPLAIN_GROUP, {"consumerGroup": "CG", "topic": "Nothing"})
        row.check(answer.remark, answer.code, topic="Nothing")


@pytest.mark.parametrize("code", PAGES)
def test_bi277_a_page_that_is_too_long(watching, row, code):
    with watching.peer() as peer:
        for most in (0, 201):
            answer = peer.ask(code, body=dumps({"most": most}))
            row.check(answer.remark, answer.code, code=code, most=most, rows=200)


@pytest.mark.parametrize(
    ("code", "key", "known"),
    [
        *((code, "sort", orders) for code, orders in PAGES.items()),
        *((code, "column", columns) for code, columns in COLUMNS.items()),
    ],
)
def test_bi278_a_page_in_an_unknown_order(watching, row, code, key, known):
    with watching.peer() as peer:
        answer = peer.ask(code, body=dumps({key: "age"}))
        row.check(answer.remark, answer.code, code=code, key=key, value="age", known=known)


def test_bi197_a_consumer_that_subscribes_differently(broker_with, row):
    with (running := broker_with(**REFUSE)).peer() as one, running.peer() as other:
        assert beat(one, "one").code == 0
        answer = beat(other, "other", "TagA")
        known, new = addresses(answer.remark)
        row.check(
            answer.remark,
            answer.code,
            group="CG",
            known=f"one ({known})",
            new=f"other ({new})",
            topic="T",
            old="*",
            own="TagA",
        )
        assert b"other" not in member_ids(running)


def test_bi198_a_second_connection_with_the_same_client_id(broker_with, row):
    with (running := broker_with(**REFUSE)).peer() as one, running.peer() as other:
        assert beat(one, "same").code == 0
        answer = beat(other, "same")
        known, new = addresses(answer.remark)
        row.check(answer.remark, answer.code, group="CG", client="same", known=known, new=new)
        assert member_ids(running).count(b"same") == 1


def test_bi199_a_policy_that_is_none(program, row):
    row.check(*program.refusal("--set", "consumerConflictPolicy=maybe"), value="maybe")


def test_bi200_a_policy_that_is_none_while_the_broker_runs(watching, row):
    with watching.peer() as peer:
        answer = peer.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"consumerConflictPolicy=maybe\n")
        row.check(answer.remark, answer.code, value="maybe")
        assert b"consumerConflictPolicy=warn" in bytes(peer.ask(RequestCode.GET_BROKER_CONFIG).payload)


def test_bi201_a_broker_without_the_plugin(broker_with, row):
    address = "{}:{}".format(*broker_with(**WITHOUT_IT).address)
    done = CliRunner().invoke(main, ["group", "explain", "CG", "-b", address])
    row.check(done.stderr.removeprefix("gantrymq: "), f"exit {done.exit_code}", address=address)


def addresses(sentence):
    """The two addresses that a sentence names, in order."""
    words = (word.strip("();,") for word in sentence.split())
    return [word for word in words if word.startswith("127.0.0.1:")]


def test_bi376_the_offsets_of_a_topic_that_members_read(watching, row):
    with watching.peer() as peer:
        assert beat(peer, "reader").code == 0
        answer = peer.ask(DELETE_OFFSETS, {"consumerGroup": "CG", "topic": "T"})
        row.check(answer.remark, answer.code, group="CG", topic="T")
