"""Members of a group that the broker refuses, in ``gantrymq group clients``."""

import asyncio
import json

import pytest

from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request
from gantrymq.remoting.signatures import Signer
from gantrymq.world.real import real_world

pytest.importorskip("gantrymq_diagnosis")

SUBSCRIPTION = {"topic": "Orders", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
BEAT = {
    "clientID": "bob@1",
    "producerDataSet": [],
    "consumerDataSet": [{"groupName": "billing", "subscriptionDataSet": [SUBSCRIPTION]}],
}


def test_clients_that_are_refused_are_shown_until_they_may_join(operator):
    """Also if no member is online, which would be an error otherwise."""
    root = operator(users={"bob": []})
    root.server.create_topic("Orders", 1)
    root("group", "create", "billing")

    async def work():
        client = RemotingClient(real_world())

        async def beat():
            command = request(34, {}, json.dumps(BEAT).encode())
            Signer(root.server.credentials("bob")).sign(command)
            return (await client.call(root.server.broker_address, command, 10)).code

        try:
            assert await beat() == 16
            in_thread = asyncio.to_thread
            (shown,) = (await in_thread(root, "group", "clients", "billing")).documents
            (refused,) = shown["refused"]
            assert (shown["clients"], refused["client_id"], refused["user"]) == ([], "bob@1", "bob")
            assert "Group:billing, Topic:Orders" in refused["reason"]
            told = (await in_thread(root.text, "group", "clients", "billing")).output
            assert "bob@1 of user bob at 127.0.0.1" in told
            for resource in ("Group:billing", "Topic:Orders"):
                await in_thread(root, "acl", "grant", "bob", "-r", resource, "-a", "Sub")
            assert await beat() == 0
            (shown,) = (await in_thread(root, "group", "clients", "billing")).documents
            assert (shown["refused"], [each["client_id"] for each in shown["clients"]]) == ([], ["bob@1"])
        finally:
            await client.close()

    asyncio.run(work())
