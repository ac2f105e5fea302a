"""A broker with users and policies, and accounts that send it requests."""

import json
from pathlib import Path

from gantrymq.client.calls.credentials import Credentials
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request
from gantrymq.remoting.signatures import Signer

ROOT = "rocketmq"
SECRETS = {ROOT: "12345678", "alice": "alicepw1", "bob": "bobpw123", "root2": "root2pw1"}


class Rig:
    """A cluster whose broker has access control, and connections by account."""

    def __init__(self, world, cluster):
        self.world, self.cluster = world, cluster
        self._clients = {}

    @property
    def authorizer(self):
        return self.cluster.broker.access.authorizer

    async def ask(self, code, ext=None, body=None, *, user=ROOT, secret=None, connection=""):
        """Send a request signed by *user*; an empty name signs nothing."""
        command = request(code, dict(ext or {}), None if body is None else json.dumps(body).encode())
        return await self.send(command, user, secret, connection)

    async def send(self, command, user=ROOT, secret=None, connection=""):
        if user:
            Signer(Credentials(user, secret or SECRETS.get(user, "unknown"))).sign(command)
        client = self._clients.setdefault(connection, RemotingClient(self.world))
        return await (await client.connect(self.cluster.broker_address)).call(command, 600)

    async def create(self, name, **members):
        """Create a user, a Normal one unless *members* say otherwise."""
        secret = SECRETS.setdefault(name, f"{name}-secret")
        answer = await self.ask(3001, {"username": name}, {"password": secret, **members})
        assert answer.code == 0, answer.remark

    async def grant(self, name, resource, actions="Pub", decision="Allow", policy="Custom", sources=(), user=ROOT):
        """Add an entry; return the answer."""
        entry = {"resource": resource, "actions": actions.split(","), "decision": decision}
        if sources:
            entry["sourceIps"] = list(sources)
        body = {"policies": [{"policyType": policy, "entries": [entry]}]}
        return await self.ask(3006, {"subject": f"User:{name}"}, body, user=user)

    def file(self, name):
        return self.world.files.read(self.config / name)

    @property
    def config(self):
        return self.cluster.broker.root / "config"

    def audited(self):
        """The lines of the audit log."""
        path = self.cluster.broker.state_folder("access") / "audit.log"
        return [json.loads(line) for line in self.world.files.read(path).splitlines()]

    async def close(self):
        for each in self._clients.values():
            await each.close()


FIRST = json.dumps({"username": ROOT, "password": SECRETS[ROOT]})
BOTH = {
    "authorizer": "acl",
    "authenticationEnabled": True,
    "authorizationEnabled": True,
    "initAuthenticationUser": FIRST,
}
CONFIG = Path("/gantrymq/store/config")

SEND = {"producerGroup": "PG", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "1", "queueId": "0"}
SEND |= {
    "sysFlag": "0",
    "bornTimestamp": "0",
    "flag": "0",
    "properties": "",
    "reconsumeTimes": "0",
    "unitMode": "false",
}


async def with_topic(rig):
    fields = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    assert (await rig.ask(17, fields)).code == 0
    await rig.create("alice")


async def send(rig, user="alice", **more):
    return await rig.send(request(10, dict(SEND), b"x"), user, **more)
