"""The base of clients without remoting frames: complete, and with an answer to each question."""

from __future__ import annotations

import asyncio
import inspect
from importlib.util import find_spec
from typing import Protocol

import pytest

from gantrymq.errors import ConnectionLost
from gantrymq.interfaces import ClientChannel, ConsumerHeartbeat, Heartbeat, LocalClient
from gantrymq.model.hosts import unpack_host
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq_testing.simulation import simulate_cluster

QUESTIONS = {
    "deliver_reply": (None, 1.0),
    "running_info": ("CG", "client", {}, 1.0),
    "consume_directly": (None, {}, 1.0),
    "consumer_offsets": ("T", "CG", 1.0),
}


def test_it_has_every_member_of_a_channel():
    client = LocalClient(("192.0.2.1", 7), listener="sdk", certificate="CN=a", encrypted=True)
    kinds = [kind for kind in ClientChannel.__mro__ if kind not in (object, Protocol)]
    names = {name for kind in kinds for name in vars(kind) if not name.startswith("_")}
    for name in names:
        assert hasattr(client, name), name
        if inspect.isfunction(getattr(ClientChannel, name)):
            declared, own = (inspect.signature(getattr(each, name)) for each in (ClientChannel, LocalClient))
            assert own == declared, name
    assert (client.address, client.listener, client.certificate) == ("192.0.2.1:7", "sdk", "CN=a")
    assert (client.encrypted, client.closed, client.principal, client.notes) == (True, False, None, {})


@pytest.mark.parametrize(
    ("host", "address", "packed"),
    [("::1", "[::1]:7", "::1"), ("client.example", "client.example:7", "0.0.0.0")],
)
def test_addresses_that_are_no_ipv4(host, address, packed):
    client = LocalClient((host, 7))
    assert client.address == address
    assert unpack_host(client.peer_packed_host) == (packed, 7)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_with_not_supported_and_fails_once_the_client_is_closed(question):
    async def ask(client):
        return await getattr(client, question)(*QUESTIONS[question])

    client = LocalClient(("192.0.2.1", 7))
    answer = asyncio.run(ask(client))
    assert answer.code == 3
    assert "192.0.2.1:7" in answer.remark
    client.close()
    with pytest.raises(ConnectionLost, match=r"192\.0\.2\.1:7"):
        asyncio.run(ask(client))


@pytest.mark.skipif(find_spec("gantrymq_diagnosis") is None, reason="needs the plugin diagnosis")
def test_a_broker_serves_it_and_passes_its_answers_on():
    async def main(cluster):
        await cluster.create_topic("T", 1)
        client, clients = LocalClient(("192.0.2.1", 7)), cluster.broker.clients
        group = ConsumerHeartbeat("CG", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", False, [])
        for client_id, each in (("one", client), ("two", LocalClient(("192.0.2.1", 8)))):  # the second changes members
            clients.heartbeat(Heartbeat(client_id, "PYTHON", 479, ["PG"], [group]), each)
        ask = request(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "CG", "clientId": "one"})
        answer = await RemotingClient(cluster.world).call(cluster.broker_address, ask)
        assert (answer.code, "cannot report their state" in answer.remark) == (3, True)
        reset = {"topic": "T", "group": "CG", "timestamp": "0", "isForce": "true"}
        ask = request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)
        assert (await RemotingClient(cluster.world).call(cluster.broker_address, ask)).code == 0
        clients.gone(client)
        assert [each.client_id for each in clients.consumers("CG")] == ["two"]

    simulate_cluster(main)
