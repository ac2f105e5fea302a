"""Asking name servers for the route of a topic."""

import pytest

from gantrymq.errors import BrokerRefused
from gantrymq.remoting.client import RemotingClient, ask_route
from gantrymq.remoting.command import Command
from gantrymq.remoting.server import RemotingServer
from gantrymq_testing.simulated import simulate


class NameServer:
    """Answers every request alike."""

    def __init__(self, answer):
        self.answer = answer

    def requests(self, connection, commands):
        for command in commands:
            connection.reply(command, Command(self.answer.code, remark=self.answer.remark, body=self.answer.body))


def asked(*answers, read=lambda route: route["queues"]):
    """Ask name servers that give *answers*."""

    async def run(world):
        client, servers, addresses = RemotingClient(world), [], []
        for number, answer in enumerate(answers):
            servers.append(RemotingServer(world, NameServer(answer)))
            await servers[-1].start(f"10.0.0.{number}", 9876)
            addresses.append(f"10.0.0.{number}:9876")
        try:
            return await ask_route(client, addresses, "T", read)
        finally:
            await client.close()
            for server in servers:
                await server.stop()
            await world.workers.close()

    return simulate(1, run)


REFUSED = Command(1, remark="no")


def test_the_first_route_that_can_be_read_counts():
    assert asked() is None
    assert asked(Command(0, body=b'{"queues":[1,2]}'), REFUSED) == [1, 2]
    assert asked(REFUSED, Command(0, body=b"{"), Command(0, body=b'{"queues":[3]}')) == [3]
    assert asked(Command(17, remark="No topic route info"), Command(0, body=b'{"queues":[3]}')) == []


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (REFUSED, "10.0.0.0:9876 answered code 1: no"),
        (Command(0, body=b"{}"), "10.0.0.0:9876 answered code 1: its route of T cannot be read: KeyError"),
        (Command(0, body=b"7"), "10.0.0.0:9876 answered code 1: its route of T cannot be read: TypeError"),
    ],
)
def test_a_route_that_cannot_be_had_is_told_in_a_sentence(answer, sentence):
    with pytest.raises(BrokerRefused) as refused:
        asked(answer)
    assert str(refused.value).startswith(sentence)
