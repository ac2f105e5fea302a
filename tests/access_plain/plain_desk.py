"""Accounts, and requests that are signed with them."""

from pathlib import Path

from gantrymq.client.calls.credentials import Credentials
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request
from gantrymq.remoting.signatures import Signer

HOME = Path("/rocketmq")
MAIN = HOME / "conf" / "plain_acl.yml"
SECRET = "12345678"

ACCOUNTS = """\
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: operator
  secretKey: 12345678
  admin: true
- accessKey: orders1
  secretKey: 12345678
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - Orders=PUB|SUB
  - Bills=SUB
  - Closed=DENY
  groupPerms:
  - secret=DENY
- accessKey: writer1
  secretKey: 12345678
  defaultTopicPerm: PUB
"""


class Desk:
    """Sends requests to the broker, signed with an account."""

    def __init__(self, cluster):
        self.cluster, self.world = cluster, cluster.world
        self.client = RemotingClient(cluster.world)

    @property
    def files(self):
        return self.world.files

    async def ask(self, code, ext=None, body=None, key="operator", secret=SECRET, change=None):
        """Sign and send one request; *change* edits it after the signature. Without a key it is not signed."""
        asked = request(code, dict(ext or {}), body)
        if key:
            Signer(Credentials(key, secret)).sign(asked)
        if change is not None:
            change(asked)
        connection = await self.client.connect(self.cluster.broker_address)
        return await connection.call(asked, 30)

    async def send(self, topic, **more):
        """Send a message; return the code and the remark of the answer."""
        fields = {
            "producerGroup": "PG",
            "topic": topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": "0",
            "sysFlag": "0",
            "bornTimestamp": "1",
            "flag": "0",
            "properties": "",
        }
        answer = await self.ask(10, fields, b"x", **more)
        return answer.code, answer.remark

    def write(self, text, path=MAIN):
        self.files.make_dirs(path.parent)
        self.files.replace(path, text.encode() if isinstance(text, str) else text)

    async def reload(self):
        """Let the broker look at its files."""
        await self.world.clock.sleep(6)
