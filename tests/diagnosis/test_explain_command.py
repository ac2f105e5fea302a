"""``gantrymq group explain`` against a broker of this process."""

import json
import time
from importlib.util import find_spec

import attrs
import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.loose_json import dumps
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request

pytestmark = [
    pytest.mark.skipif(find_spec("gantrymq_storage_memory") is None, reason="needs gantrymq-storage-memory"),
    pytest.mark.skipif(find_spec("gantrymq_admin") is None, reason="needs gantrymq-admin"),
]


@pytest.fixture
def server(gantrymq_broker_factory):
    return gantrymq_broker_factory({"store": "memory"})


@pytest.fixture
def explain(server):
    def run(*words, code=0):
        done = CliRunner().invoke(main, ["group", "explain", *words, "-n", server.namesrv])
        assert done.exit_code == code, done.output
        return done

    return run


@pytest.fixture
def join(server):
    """Members of CG that read T, for as long as the test runs."""
    clients = []

    def run(client_id, expression="*"):
        async def beat():
            client = RemotingClient(server.broker.world)
            clients.append(client)
            wanted = [{"topic": "T", "subString": expression, "subVersion": 1, "expressionType": "TAG"}]
            consumer = {"groupName": "CG", "subscriptionDataSet": wanted}
            body = dumps({"clientID": client_id, "consumerDataSet": [consumer]})
            return await (await client.connect(server.broker_address)).call(request(34, None, body), 10)

        return server.run(beat())

    yield run
    for each in clients:
        server.run(each.close())


def test_people_get_a_table_and_sentences(server, explain, join):
    server.create_topic("T", 2)
    server.send("T", b"x")
    assert join("one").code == join("other", "TagA").code == 0
    done = explain("CG")
    assert done.stdout.count("members subscribe differently") == 2
    assert "the broker keeps one subscription a group" in done.stdout
    assert "2 members, 1 behind, 0 to be tried again, 0 dead letters" in done.stdout


def test_scripts_get_json(server, explain, join):
    server.create_topic("T", 2)
    join("one")
    (broker,) = json.loads(explain("CG", "--output", "json", "-t", "T").stdout)["brokers"]
    assert broker["address"] == server.broker_address
    assert [each["reason"] for each in broker["queues"]] == ["not-owned"] * 2
    assert [each["client_id"] for each in broker["members"]] == ["one"]


def test_a_group_that_is_not_there(explain):
    assert "there is no group Nobody; 'gantrymq group list'" in explain("Nobody", code=1).stderr


def test_a_broker_without_the_plugin(gantrymq_broker_factory):
    server = gantrymq_broker_factory({"plugins": "storage_memory,filter_tag,nameserver"})
    done = CliRunner().invoke(main, ["group", "explain", "CG", "-n", server.namesrv])
    assert done.exit_code == 1
    assert "pip install ./plugins/diagnosis" in done.stderr


def test_a_thousand_queues(server, explain, join):
    server.create_topic("T", 1000)
    join("one")
    began = time.process_time()  # of client and broker; other processes do not change it
    (broker,) = json.loads(explain("CG", "--output", "json").stdout)["brokers"]
    assert len(broker["queues"]) == 1000
    assert time.process_time() - began < 5


def test_status_shows_what_plugins_show(server, join):
    server.create_topic("T", 2)
    join("one")
    words = ["status", "-n", server.namesrv]
    (broker,) = json.loads(CliRunner().invoke(main, [*words, "--output", "json"]).stdout)["brokers"]
    assert broker["figures"]["gantrymq_group_conflicts"]["value"] == 0
    assert "gantrymq_group_conflicts" not in CliRunner().invoke(main, words).stdout
    join("other", "TagA")
    assert "gantrymq_group_conflicts" in CliRunner().invoke(main, words).stdout


def test_a_topic_that_another_broker_has_is_not_told_as_missing():
    from gantrymq_admin.explanations import (
        GroupExplanation,
        QueueExplanation,
        Reason,
        Retries,
        without_topics_of_others,
    )

    def explained(broker, topics, missing):
        queues = [
            QueueExplanation(
                **{field.name: None for field in attrs.fields(QueueExplanation)} | {"topic": topic, "queue": 0}
            )
            for topic in topics
        ]
        reasons = [
            Reason("topic-missing", f"in other words: {topic} is missing", {"topic": topic}, "subscribed")
            for topic in missing
        ]
        given = {field.name: None for field in attrs.fields(GroupExplanation)}
        given |= {"broker": broker, "queues": tuple(queues), "diagnosis": (*reasons, Reason("nobody-online", "none"))}
        return GroupExplanation(**given | {"retry": Retries(0, 0, False, None)})

    found = without_topics_of_others({"a": explained("a", ["T"], ["U"]), "b": explained("b", [], ["T", "U"])})
    told = {broker: [each.values["topic"] for each in one.diagnosis[:-1]] for broker, one in found.items()}
    assert told == {"a": ["U"], "b": ["U"]}
    assert all(one.diagnosis[-1].reason == "nobody-online" for one in found.values())


def test_an_unknown_group_is_told_where_to_look(explain):
    assert "a client whose topics do not exist connects to no broker" in explain("Nobody", code=1).stderr
