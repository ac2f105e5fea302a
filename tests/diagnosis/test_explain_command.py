"""``gantrymq group explain`` against a broker of this process."""

import json
import time
from importlib.util import find_spec

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
