"""A strategy of one's own shares out queues by its name in requests for assignment (400)."""

import json

import pytest

pytest.importorskip("gantrymq_pop")
pytest.importorskip("gantrymq_storage_mmap")

from gantrymq.hooks import hookimpl
from gantrymq.loose_json import dumps
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request


class Halves:
    """The first member gets the lower half, the second one the others."""

    name = "HALVES"

    def __init__(self, settings=None):
        pass

    def allocate(self, group, client_id, queues, client_ids):
        at = list(client_ids).index(client_id)
        return [queue for queue in queues if (queue.queue_id >= len(queues) // 2) == bool(at)]


class Plugin:
    @hookimpl
    def gantry_register_allocations(self, registry):
        registry.add(Halves.name, Halves)


def heartbeat(client_id):
    subscription = {"topic": "T", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    group = {"groupName": "CG", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "unitMode": False}
    group |= {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription]}
    return request(34, None, dumps({"clientID": client_id, "consumerDataSet": [group]}))


def test_members_get_their_shares_by_its_name(gantrymq_broker_factory):
    running = gantrymq_broker_factory({"store": "mmap"}, [("halves", Plugin())])
    running.create_topic("T", 4)

    async def ask():
        shares = []
        connections = []
        for member in ("c1", "c2"):
            connections.append(await RemotingClient(running.cluster.world).connect(running.broker_address))
            assert (await connections[-1].call(heartbeat(member), 30.0)).code == 0
        for strategy in ("HALVES", "MISSING"):
            for member in ("c1", "c2"):
                body = {"topic": "T", "consumerGroup": "CG", "clientId": member, "messageModel": "CLUSTERING"}
                asked = request(400, None, dumps({**body, "strategyName": strategy}))
                shares.append(await connections[0].call(asked, 30.0))
        for connection in connections:
            connection.close()
        return shares

    *answers, refused, _ = running.run(ask())
    found = [json.loads(each.payload)["messageQueueAssignments"] for each in answers]
    assert [sorted(each["messageQueue"]["queueId"] for each in share) for share in found] == [[0, 1], [2, 3]]
    assert "no installed plugin offers the allocation strategy MISSING" in refused.remark
