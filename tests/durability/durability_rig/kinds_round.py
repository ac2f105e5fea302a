"""The clients of `crash_rig.kinds` with a broker in another process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from crash_rig.kinds import QUEUES
from crash_rig.kinds_ledger import CONSUMERS, DEAD, RETRY, TOPICS

from gantrymq.client import Client
from gantrymq.formats.record import RecordView, iter_records, read_record
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq.world import World

CONSUMED = (Queue(TOPICS["failed"], 0), Queue(RETRY, 0))


class RemoteLife:
    """The interface to a broker that `Kinds` needs."""

    def __init__(self, world: World, host: str, port: int) -> None:
        self.world = world
        self.server = SimpleNamespace(address=(host, port))
        self.files = SimpleNamespace(crashed=False)
        self.offsets: dict[Queue, int] = {}  # committed before the clients began
        self.broker = SimpleNamespace(
            topics=SimpleNamespace(get=lambda name: name),  # they were made beforehand
            offsets=SimpleNamespace(committed=lambda group, queue: self.offsets.get(queue)),
        )

    async def look(self, namesrv: str) -> None:
        """Make the topics, and ask for the committed offsets."""
        async with Client(namesrv, world=self.world) as client, client.admin as admin:
            (broker,) = await admin.masters()
            for name in TOPICS.values():
                await admin.create_topic(broker, TopicConfig(name, QUEUES, QUEUES))
        remoting = RemotingClient(self.world)
        for queue in CONSUMED:
            header = {"consumerGroup": CONSUMERS, "topic": queue.topic, "queueId": "0", "setZeroIfNotFound": "false"}
            answer = await self._ask(remoting, RequestCode.QUERY_CONSUMER_OFFSET, header)
            if answer.code == 0:
                self.offsets[queue] = int(answer.ext["offset"])
        await remoting.close()

    async def records(self) -> dict[str, list[RecordView]]:
        """Return the messages of the clients' topics as consumers see them."""
        remoting = RemotingClient(self.world)
        found: dict[str, list[RecordView]] = {}
        for topic in (*TOPICS.values(), RETRY, DEAD):
            for queue_id in range(QUEUES if topic in TOPICS.values() else 1):
                at = 0
                while True:
                    header = {"consumerGroup": "look", "topic": topic, "queueId": str(queue_id), "maxMsgNums": "32"}
                    header |= {"queueOffset": str(at), "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
                    header |= {"subscription": "*", "subVersion": "0"}
                    answer = await self._ask(remoting, RequestCode.PULL_MESSAGE, header)
                    records = list(iter_records(answer.payload)) if answer.code == 0 else []
                    if not records:
                        break
                    found.setdefault(topic, []).extend(read_record(bytes(each.raw)) for each in records)
                    at = records[-1].queue_offset + 1
        await remoting.close()
        return found

    async def _ask(self, remoting: RemotingClient, code: int, header: dict[str, str]) -> Any:
        host, port = self.server.address
        return await remoting.call(f"{host}:{port}", request(code, header, None), timeout_s=30)
