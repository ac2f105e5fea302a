"""The queues of a topic on all brokers of its route."""

from __future__ import annotations

import pytest

from gantrymq.broker.identity import Identity
from gantrymq.broker.registering.cluster_queues import ClusterQueues
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.errors import BrokerRefused, ClientError
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import Command
from gantrymq.remoting.server import RemotingServer
from gantrymq_testing.simulated import simulate

IDENTITY = Identity("C", "a", 0, "10.0.0.1", 10911)
ROUTE = b"""{"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":1,"writeQueueNums":9},
{"brokerName":"b","perm":4,"readQueueNums":2,"writeQueueNums":9},
{"brokerName":"c","perm":2,"readQueueNums":3,"writeQueueNums":9}],"brokerDatas":[]}"""


class NameServer:
    """Answers every request alike."""

    def __init__(self, answer):
        self.answer = answer

    def requests(self, connection, commands):
        for command in commands:
            connection.reply(command, Command(self.answer.code, remark=self.answer.remark, body=self.answer.body))


def asked(settings, answers, *, addresses=("10.0.0.9:9876",)):
    """Return the queues of topic T with name servers that give *answers*, or without name servers."""

    async def run(world):
        topics = TopicTable(settings, world.clock.now_ms)
        topics.put(TopicConfig("T", 2, 2))
        topics.put(TopicConfig("Closed", 2, 2, 2))
        client = RemotingClient(world)
        queues = ClusterQueues(IDENTITY, topics, client, addresses if answers is not None else ())
        if answers is None:
            return await queues.readable("T"), await queues.readable("Closed"), await queues.readable("Nowhere")
        servers = []
        for address, answer in answers.items():
            servers.append(RemotingServer(world, NameServer(answer)))
            await servers[-1].start(*address)
        try:
            return await queues.readable("T")
        finally:
            await client.close()
            for server in servers:
                await server.stop()
            await world.workers.close()

    return simulate(1, run)


def test_without_name_servers_the_cluster_is_this_broker(settings):
    own, closed, unknown = asked(settings, None)
    assert own == [MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)]
    assert closed == unknown == []


def test_the_route_gives_the_readable_queues_of_every_broker(settings):
    found = asked(settings, {("10.0.0.9", 9876): Command(0, body=ROUTE)})
    assert found == [MessageQueue("T", "a", 0), MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]


def test_a_topic_without_route_has_no_queues(settings):
    assert asked(settings, {("10.0.0.9", 9876): Command(17, remark="No topic route info")}) == []


def test_the_next_name_server_is_asked_when_one_is_gone(settings):
    answers = {("10.0.0.9", 9876): Command(0, body=ROUTE)}
    found = asked(settings, answers, addresses=("10.0.0.8:9876", "10.0.0.9:9876"))
    assert len(found) == 3


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Command(1, remark="no"), BrokerRefused),
        (Command(0, body=b"[]"), BrokerRefused),
        (Command(0, body=b'{"queueDatas":[{"brokerName":"a"}]}'), BrokerRefused),
        (Command(0, body=b"{"), BrokerRefused),
        (None, ClientError),
    ],
)
def test_what_cannot_be_used_is_an_error(settings, answer, error):
    answers = {} if answer is None else {("10.0.0.9", 9876): answer}
    with pytest.raises(error):
        asked(settings, answers)
