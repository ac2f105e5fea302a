"""A client that uses every other kind of message: delayed, timed, transactional, failed and popped.

It uses bare requests and repeats each until it is answered, so a message may have been sent more than once.
It is done when every message has reached its destination, for which the broker must be up again.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator

import attrs

from gantrymq.errors import GantryError
from gantrymq.formats.record import RecordView, iter_records, read_record
from gantrymq.loose_json import dumps
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.connection import Connection
from gantrymq.world import World
from simulation_rig.plan import KindsPlan

TOPICS = {"delayed": "KD", "timed": "KD", "transaction": "KT", "failed": "KF", "popped": "KP"}
PRODUCERS, CONSUMERS, POPPERS = "KPG", "KCG", "KPOP"
RETRY, DEAD = f"%RETRY%{CONSUMERS}", f"%DLQ%{CONSUMERS}"
LEVELS_S = (1, 2, 3, 5, 8, 13)
SETTINGS = {
    "messageDelayLevel": " ".join(f"{seconds}s" for seconds in LEVELS_S),
    "transactionCheckInterval": 2000,
    "transactionTimeOut": 2000,
    "transactionCheckMax": 1000,  # the retry limit is never reached here
}
EARLY_MS = 1000  # how early a timer may fire within the second of its message
COMMIT, ROLLBACK = 8, 12
MOST_TRIES = 3
INVISIBLE_MS = 10_000
GONE_MS = 30_000  # a message that did not return for this long was acknowledged
PAUSE_S, HEARTBEAT_S, CALL_S = 0.3, 2.0, 3.0
FOUND = (0, 17, 19, 20, 21, 210)  # or empty, or not yet there


@attrs.define
class Odd:
    """One message of one of the kinds."""

    kind: str
    body: bytes
    since_ms: int  # before its first attempt
    due_ms: int = 0  # must not be delivered earlier
    commits: bool = True
    decided_ms: int = 0  # when its decision was first sent, 0 before
    failures: int = 0  # how often it has to fail
    tries: int = 0  # attempts to send it


class Kinds:
    """The client's tasks and its records."""

    def __init__(self, plan: KindsPlan, broker: str, seed: int) -> None:
        self.sent: dict[bytes, Odd] = {}
        self.bugs: list[str] = []
        self.seen: dict[str, list[RecordView]] = {topic: [] for topic in (*TOPICS.values(), RETRY, DEAD)}
        self._plan = plan
        self._broker = f"{broker}:10911"
        self._random = random.Random(f"{seed}/kinds at work")
        self._consumed: set[bytes] = set()
        self._hidden_ms: dict[bytes, int] = {}
        self._acknowledged: set[bytes] = set()
        self._unanswered: set[bytes] = set()  # acknowledgements with an unknown result

    async def run(self, world: World, namesrv: str) -> None:
        """Send everything, see it through, and close."""
        self._world = world
        self._remoting = RemotingClient(world, handler=self)
        helpers = [asyncio.ensure_future(each()) for each in (self._beat, self._consume, self._pop)]
        try:
            for _ in range(self._plan.sends):
                await self._send(self._random.choice(list(TOPICS)))
                await world.clock.sleep(self._random.uniform(0, self._plan.pause_s))
            while not await self._through():
                for each in helpers:
                    if each.done():
                        each.result()
                await world.clock.sleep(PAUSE_S)
        finally:
            for each in helpers:
                each.cancel()
            await asyncio.wait(helpers)
            await self._remoting.close()

    def judge(self) -> Iterator[str]:
        """Problems found, as sentences."""
        yield from self.bugs
        for topic in set(TOPICS.values()):
            copies = Counter(bytes(record.body) for record in self.seen[topic])
            for record in self.seen[topic]:
                sent = self.sent.get(bytes(record.body))
                if sent is None or TOPICS[sent.kind] != topic:
                    yield f"{topic} holds {bytes(record.body)!r}, which nobody sent there"
                elif record.store_timestamp < max(sent.due_ms, sent.decided_ms):
                    yield f"{sent} came at {record.store_timestamp}"
            for body, count in copies.items():
                if body in self.sent and count > self.sent[body].tries:
                    yield f"{self.sent[body]} is there {count} times"
        for record in self.seen["KT"]:
            if not self.sent[bytes(record.body)].commits:
                yield f"{self.sent[bytes(record.body)]} was rolled back and is there"
        for record in self.seen[RETRY]:
            if record.reconsume_times > min(self.sent[bytes(record.body)].failures, MOST_TRIES):
                yield f"{self.sent[bytes(record.body)]} came for try {record.reconsume_times}"

    def requests(self, connection: Connection, commands: list[Command]) -> None:
        """Answer a transaction check of the broker."""
        for asked in commands:
            if asked.code == RequestCode.CHECK_TRANSACTION_STATE:
                sent = self.sent[bytes(read_record(asked.payload).body)]
                if sent.decided_ms or self._random.random() < 0.7:
                    fields = {name: asked.ext[name] for name in ("tranStateTableOffset", "commitLogOffset", "msgId")}
                    connection.oneway(request(RequestCode.END_TRANSACTION, self._decision(sent, fields), oneway=True))

    async def _send(self, kind: str) -> None:
        now = self._world.clock.now_ms()
        sent = Odd(kind, f"{kind}/{len(self.sent)}".encode(), now)
        self.sent[sent.body] = sent
        flag, properties = 0, {"UNIQ_KEY": f"{len(self.sent):032X}"}
        if kind == "delayed":
            level = self._random.randint(1, len(LEVELS_S))
            sent.due_ms = now + LEVELS_S[level - 1] * 1000
            properties["DELAY"] = str(level)
        elif kind == "timed":
            delay_ms = self._random.randint(2_000, 20_000)
            sent.due_ms = now + delay_ms - EARLY_MS
            properties["TIMER_DELAY_MS"] = str(delay_ms)
        elif kind == "transaction":
            flag, sent.commits = 4, self._random.random() < 0.6
            properties |= {"TRAN_MSG": "true", "PGROUP": PRODUCERS}
        elif kind == "failed":
            sent.failures = self._random.choice((0, 1, 2, MOST_TRIES + 1))
        answer = await self._ask(
            RequestCode.SEND_MESSAGE, self._header(TOPICS[kind], flag, properties), sent.body, sent
        )
        if kind == "transaction" and self._random.random() < 0.6:
            fields = {"tranStateTableOffset": answer.ext["queueOffset"], "msgId": properties["UNIQ_KEY"]}
            fields["commitLogOffset"] = str(int(answer.ext["msgId"][16:], 16))
            await self._once(RequestCode.END_TRANSACTION, self._decision(sent, fields))

    def _header(self, topic: str, flag: int, properties: dict[str, str]) -> dict[str, str]:
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        fixed = {"producerGroup": PRODUCERS, "defaultTopic": "TBW102", "defaultTopicQueueNums": "1", "queueId": "0"}
        fixed |= {"bornTimestamp": str(self._world.clock.now_ms()), "flag": "0", "reconsumeTimes": "0"}
        return {**fixed, "topic": topic, "sysFlag": str(flag), "properties": text, "unitMode": "false"}

    def _decision(self, sent: Odd, fields: dict[str, str]) -> dict[str, str]:
        sent.decided_ms = sent.decided_ms or self._world.clock.now_ms()
        word = str(COMMIT if sent.commits else ROLLBACK)
        return {**fields, "producerGroup": PRODUCERS, "commitOrRollback": word, "fromTransactionCheck": "false"}

    async def _beat(self) -> None:
        body = dumps({"clientID": "kinds", "producerDataSet": [{"groupName": PRODUCERS}], "consumerDataSet": []})
        while True:
            await self._once(RequestCode.HEART_BEAT, {}, body)
            await self._world.clock.sleep(HEARTBEAT_S)

    async def _consume(self) -> None:
        """Fail each message the planned number of times."""
        while True:
            for topic in (TOPICS["failed"], RETRY):
                for record in await self._read(topic):
                    body = bytes(record.body)
                    if record.reconsume_times < self.sent[body].failures:
                        header = {"offset": str(record.log_offset), "group": CONSUMERS, "originTopic": topic}
                        header |= {"delayLevel": "1", "maxReconsumeTimes": str(MOST_TRIES), "unitMode": "false"}
                        await self._ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
                    else:
                        self._consumed.add(body)
            await self._world.clock.sleep(PAUSE_S)

    async def _pop(self) -> None:
        """Pop one message at a time, and acknowledge most of them."""
        group = {"consumerGroup": POPPERS, "topic": TOPICS["popped"]}
        ask = {**group, "queueId": "-1", "maxMsgNums": "1", "invisibleTime": str(INVISIBLE_MS), "pollTime": "0"}
        ask |= {"initMode": "0", "bornTime": "0"}
        while True:
            answer = await self._once(RequestCode.POP_MESSAGE, {**ask, "bornTime": str(self._world.clock.now_ms())})
            for record in iter_records(answer.payload) if answer is not None and answer.code == 0 else ():
                await self._take(record, answer.ext, group)
            await self._world.clock.sleep(PAUSE_S)

    async def _take(self, record: RecordView, ext: dict[str, str], group: dict[str, str]) -> None:
        sent = self.sent[bytes(record.body)]
        now = self._world.clock.now_ms()
        if sent.tries == 1 and (sent.body in self._acknowledged or now < self._hidden_ms.get(sent.body, 0)):
            self.bugs.append(f"{sent} was popped again at {now}, hidden until {self._hidden_ms.get(sent.body)}")
        self._hidden_ms[sent.body] = int(ext["popTime"]) + INVISIBLE_MS
        if self._random.random() < 0.3:
            return
        kind, queue_id, start = ext["startOffsetInfo"].split(" ")
        given = start, ext["popTime"], ext["invisibleTime"], ext["reviveQid"], kind, "broker-a", queue_id
        handle = record.properties.get("POP_CK") or f"{' '.join(given)} {record.queue_offset}"
        topic = group["topic"] if handle.split(" ")[4] == "0" else f"%RETRY%{POPPERS}_{group['topic']}"
        header = {**group, "topic": topic, "queueId": queue_id, "extraInfo": handle, "offset": str(record.queue_offset)}
        answer = await self._once(RequestCode.ACK_MESSAGE, header)
        if answer is None:
            self._unanswered.add(sent.body)
        elif answer.code == 0:
            self._acknowledged.add(sent.body)

    async def _through(self) -> bool:
        """Whether every message has reached its destination."""
        for topic in ("KD", "KT", DEAD):
            await self._read(topic)
        there = {bytes(record.body) for topic in ("KD", "KT", DEAD) for record in self.seen[topic]}
        for body, sent in self.sent.items():
            if sent.kind == "failed":
                done = body in (there if sent.failures > MOST_TRIES else self._consumed)
            elif sent.kind == "popped":
                over = self._hidden_ms.get(body, 0) + GONE_MS < self._world.clock.now_ms()
                done = body in self._acknowledged or (over and body in self._unanswered)
            elif sent.kind == "transaction":
                done = bool(sent.decided_ms) and (not sent.commits or body in there)
            else:
                done = body in there
            if not done:
                return False
        return True

    async def _read(self, topic: str) -> list[RecordView]:
        """Messages received since the last call."""
        header = {"consumerGroup": CONSUMERS, "topic": topic, "queueId": "0", "maxMsgNums": "32", "sysFlag": "4"}
        header |= {"queueOffset": str(len(self.seen[topic])), "commitOffset": "0", "suspendTimeoutMillis": "0"}
        answer = await self._once(RequestCode.PULL_MESSAGE, {**header, "subscription": "*", "subVersion": "0"})
        found = list(iter_records(answer.payload)) if answer is not None and answer.code == 0 else []
        if found and found[0].queue_offset != len(self.seen[topic]):
            self.bugs.append(f"{topic} gave {found[0].queue_offset} where {len(self.seen[topic])} was due")
        self.seen[topic] += found
        return found

    async def _ask(self, code: int, ext: dict[str, str], body: bytes | None = None, sent: Odd | None = None) -> Command:
        """Repeat the request until the broker has done it."""
        while True:
            if sent is not None:
                sent.tries += 1
            answer = await self._once(code, ext, body)
            if answer is not None and answer.code == 0:
                return answer
            await self._world.clock.sleep(PAUSE_S)

    async def _once(self, code: int, ext: dict[str, str], body: bytes | None = None) -> Command | None:
        """Send the request; return None if no answer came."""
        try:
            return await self._remoting.call(self._broker, request(code, dict(ext), body), timeout_s=CALL_S)
        except GantryError:
            return None
