"""Users of the token file, and clients that send raw requests signed by them."""

import json
from pathlib import Path

from gantrymq.client import Credentials
from gantrymq.model.ids import parse_offset_id
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request, response_to
from gantrymq.remoting.signatures import Signer

SECRET = b"top secret"
OWN = ["Pub Topic:Mine", "Sub Topic:Mine", "Get Topic:Mine", "Sub Group:mine", "Get Group:mine", "Update Group:mine"]
USERS = {
    "ops": {"secret": "s1", "allow": ["* Topic:*", "* Group:*", "* Cluster:*"]},
    "shop": {"secret": "s2", "allow": ["Pub Topic:Secret"]},
    "reader": {"secret": "s3", "allow": ["Sub Topic:Secret", "Sub Group:readers"]},
    "mallory": {"secret": "s4", "allow": OWN},
    "eu": {"secret": "s5", "allow": ["Sub Topic:eu", "Sub Group:billing"]},
    "nothing": {"secret": "s6"},
}


class Raw:
    """A client of one user that signs any request, and keeps what the broker pushes."""

    def __init__(self, cluster, user):
        self.pushed, self.clock = [], cluster.world.clock
        self.client = RemotingClient(cluster.world, handler=self)
        self.signer = self if user is None else Signer(Credentials(user, USERS[user]["secret"]))
        self.address = cluster.broker_address

    def sign(self, command):
        """Send a request of no user as it is."""

    def requests(self, connection, commands):
        for each in commands:
            self.pushed.append(each)
            if not each.is_oneway:
                connection.reply(each, response_to(each))

    async def ask(self, code, ext=None, body=None, timeout_s=3.0, signer=None):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        command = request(code, dict(ext or {}), data)
        (signer or self.signer).sign(command)
        return await self.client.call(self.address, command, timeout_s)

    async def send(self, topic, body, properties="", group="PG", flags="0", code=310):
        values = (
            group,
            topic,
            "TBW102",
            "4",
            "0",
            flags,
            str(self.clock.now_ms()),
            "0",
            properties,
            "0",
            "false",
            "16",
        )
        return await self.ask(code, dict(zip("abcdefghijkl", values, strict=True)), body)

    def has(self, text):
        return any(text in bytes(each.body or b"") for each in self.pushed)


def write(world, users):
    world.files.replace(Path("/tokens.json"), json.dumps({"users": users}).encode())


async def half(shop):
    """Store a half message; return what its end must name."""
    properties = "TRAN_MSG\x01true\x02PGROUP\x01shopPG\x02UNIQ_KEY\x01AAAA0001\x02"
    stored = await shop.send("Secret", SECRET, properties, "shopPG", "4")
    assert stored.code == 0
    return {
        "producerGroup": "shopPG",
        "tranStateTableOffset": stored.ext["queueOffset"],
        "commitLogOffset": str(parse_offset_id(stored.ext["msgId"])[2]),
        "commitOrRollback": "8",
        "fromTransactionCheck": "false",
        "msgId": "AAAA0001",
    }
