"""Support for the transaction contract: a broker with the service under test, and producers that exchange frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from gantrymq.client.message import ReceivedMessage
from gantrymq.config import Value
from gantrymq.formats.record import read_record
from gantrymq.hooks import hookimpl
from gantrymq.loose_json import dumps
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.send import SendMessageRequest
from gantrymq_testing.cluster import Cluster

__all__ = ["COMMIT", "NAME", "ROLLBACK", "TOPIC", "UNKNOWN", "Half", "TransactionBench", "plugin_with"]

NAME = "under-test"
GROUP = "producers"
TOPIC = "Orders"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
ANSWER_S = 60.0  # virtual


def plugin_with(make_service: Any) -> ModuleType:
    """Return a plugin that offers the service under test."""
    plugin = ModuleType("transaction_under_test")

    @hookimpl
    def gantry_register_transactions(registry: Any) -> None:
        registry.add(NAME, make_service)

    plugin.gantry_register_transactions = gantry_register_transactions  # type: ignore[attr-defined]
    return plugin


class Half:
    """A half message, from the response to its send."""

    def __init__(self, queue_offset: int, log_offset: int, unique_id: str) -> None:
        self.queue_offset, self.log_offset, self.unique_id = queue_offset, log_offset, unique_id

    @classmethod
    def in_check(cls, asked: Command) -> Half:
        """Return the half message of a check."""
        ext = asked.ext or {}
        return cls(int(ext["tranStateTableOffset"]), int(ext["commitLogOffset"]), ext["msgId"])


class ProducerPeer:
    """A connection of a producer, and the broker's requests over it."""

    def __init__(self, bench: TransactionBench) -> None:
        self._bench = bench
        self.client = RemotingClient(bench.cluster.world, handler=self)
        self.asked: list[Command] = []

    def requests(self, _connection: Connection, commands: Sequence[Command]) -> None:
        """Keep the checks."""
        self.asked += [each for each in commands if each.code == RequestCode.CHECK_TRANSACTION_STATE]

    async def ask(self, code: int, ext: dict[str, str] | None, body: bytes | None = None) -> Command:
        """Send a request to the broker."""
        connection = await self.client.connect(self._bench.cluster.broker_address)
        return await connection.call(request(code, ext, body), ANSWER_S)

    async def join(self, client_id: str) -> None:
        """Be a producer of the group."""
        heartbeat = {"clientID": client_id, "producerDataSet": [{"groupName": GROUP}]}
        await self.ask(RequestCode.HEART_BEAT, None, dumps(heartbeat))

    async def end(self, half: Half, decision: int, *, group: str = GROUP, from_check: bool = False) -> int:
        """Decide a transaction; the code of the answer."""
        ext = {
            "topic": TOPIC,
            "producerGroup": group,
            "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.log_offset),
            "commitOrRollback": str(decision),
            "fromTransactionCheck": str(from_check).lower(),
            "msgId": half.unique_id,
            "transactionId": half.unique_id,
        }
        return (await self.ask(RequestCode.END_TRANSACTION, ext)).code

    def bodies_asked(self) -> list[bytes]:
        """Return the bodies of the messages in the received checks."""
        return [bytes(read_record(each.payload).body) for each in self.asked]


class TransactionBench:
    """A started cluster, with its first producer."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.clock = cluster.world.clock
        self._sent = 0
        self._peers: list[ProducerPeer] = []

    async def producer(self, client_id: str = "p1") -> ProducerPeer:
        """Return a new member of the producer group."""
        peer = ProducerPeer(self)
        self._peers.append(peer)
        await peer.join(client_id)
        return peer

    async def half(self, peer: ProducerPeer, body: bytes, properties: Mapping[str, str] | None = None) -> Half:
        """Send a half message to queue 1."""
        self._sent += 1
        unique_id = f"7F0000010001AAAAAAAA{self._sent:012X}"
        own = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": unique_id, "WAIT": "true", **(properties or {})}
        header = SendMessageRequest(
            topic=TOPIC,
            producer_group=GROUP,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=1,
            sys_flag=4,
            born_timestamp=self.clock.now_ms(),
            flag=7,
            properties="".join(f"{name}\x01{value}\x02" for name, value in own.items()),
        )
        answer = await peer.ask(RequestCode.SEND_MESSAGE_V2, header.to_ext_v2(), body)
        assert answer.code == 0, f"a half message is refused: {answer.remark}"
        ext = answer.ext or {}
        return Half(int(ext["queueOffset"]), int(ext["msgId"][-16:], 16), unique_id)

    async def seen(self) -> list[ReceivedMessage]:
        """Return the messages visible to consumers of the topic."""
        return await self.cluster.pull(TOPIC)

    async def bodies(self) -> list[bytes]:
        """Return their bodies, sorted."""
        return sorted(each.body for each in await self.seen())

    async def asked(self, peers: Sequence[ProducerPeer], wanted: int, patience_s: float) -> None:
        """Wait until the broker has sent *wanted* checks, with continuing heartbeats."""
        waited = 0.0
        while sum(len(peer.asked) for peer in peers) < wanted:
            assert waited < patience_s, f"no producer was asked about an undecided message within {patience_s:g} s"
            await self.clock.sleep(1)
            waited += 1
            for number, peer in enumerate(peers):
                await peer.join(f"p{number + 1}")

    async def restart(self) -> None:
        """Stop the broker and start it on its store."""
        await self.close()
        await self.cluster.restart()

    async def close(self) -> None:
        """Close the producers' connections."""
        peers, self._peers = self._peers, []
        for peer in peers:
            await peer.client.close()


def settings_for(given: Mapping[str, Value]) -> dict[str, Value]:
    """Settings of the broker: the service under test, checked every second."""
    return {"transaction": NAME, "transactionCheckInterval": 1000, **given}
