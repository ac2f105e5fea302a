"""A client that uses every kind of message withheld by the broker, until its process ends.

It sends plain requests, each once, and records the answers. STEPS lists the operations.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from crash_rig.kinds_ledger import CONSUMERS, MOST_TRIES, POPPERS, PRODUCERS, RETRY, TOPICS, KindsLedger, Losses, Odd
from crash_rig.lives import Life
from gantrymq.errors import GantryError
from gantrymq.formats.record import RecordView, iter_records, read_record
from gantrymq.loose_json import dumps
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.connection import Connection

QUEUES = 2
LEVELS_S = (1, 1, 2, 3, 5, 8)
SETTINGS = {
    "messageDelayLevel": " ".join(f"{seconds}s" for seconds in LEVELS_S),
    "recallMessageEnable": True,
    "transactionCheckInterval": 2000,
    "transactionTimeOut": 2000,
    "transactionCheckMax": 100,  # no transaction is given up here
    "fileReservedTime": 100_000,  # a golden half message is older than three days
    "flushDelayOffsetInterval": 1000,
    "startAcceptSendRequestTimeStamp": 0,
}
COMMIT, ROLLBACK = 8, 12
EARLY_MS = 1  # a timer's slot is over at its time at the earliest
PAUSE_S, CALL_S = 0.3, 3.0
FOUND = (0, 17, 19, 20, 21, 209, 210)  # or no message, or not yet


class Kinds:
    """One process's clients."""

    def __init__(
        self, life: Life, ledger: KindsLedger, seed: object, number: int, groups: tuple[str, ...] = (), *, last: bool
    ) -> None:
        """Nothing is done before `run`.

        Args:
            number: of the process.
            groups: of other producers, whose transactions are decided by their ids.
            last: every check is answered, and everything popped is acknowledged.
        """
        self.life, self.ledger, self.broker = life, ledger, life.broker
        self.clock = life.world.clock
        self.rng = random.Random(f"{seed}/{number}/kinds")
        self.losses = Losses()
        self._number, self._groups, self._last = number, groups, last
        self._remoting = RemotingClient(life.world, handler=self)
        self._positions: dict[Queue, int] = {}

    async def run(self, operations: int, pause_s: float = 0.25) -> None:
        """Work, resting up to *pause_s* between two operations, and close."""
        for name in TOPICS.values():
            if self.broker.topics.get(name) is None:
                self.broker.topics.put(TopicConfig(name, QUEUES, QUEUES))
        helpers = [asyncio.ensure_future(each()) for each in (self._beat, self._consume, self._pop)]
        try:
            names = list(STEPS)
            for _ in range(operations):
                (name,) = self.rng.choices(names, [STEPS[each][0] for each in names])
                await STEPS[name][1](self)
                await self.clock.sleep(self.rng.uniform(0, pause_s))
        finally:
            await self._close(helpers)

    async def settle(self, seconds: float, losses: Losses) -> None:
        """See everything through that was sent before."""
        self.losses = losses
        helpers = [asyncio.ensure_future(each()) for each in (self._beat, self._consume, self._pop)]
        try:
            await self.clock.sleep(seconds)
        finally:
            await self._close(helpers)

    async def _close(self, helpers: list[asyncio.Future[None]]) -> None:
        if self.life.files.crashed:
            return
        for each in helpers:
            if each.done():
                each.result()
            each.cancel()
        await asyncio.wait(helpers)
        await self._remoting.close()

    def requests(self, connection: Connection, commands: list[Command]) -> None:
        """Handle the broker's check of a transaction."""
        for asked in commands:
            if asked.code != RequestCode.CHECK_TRANSACTION_STATE:
                continue
            record = read_record(asked.payload)
            fields = {name: asked.ext[name] for name in ("tranStateTableOffset", "commitLogOffset", "msgId")}
            body = bytes(record.body)
            self.ledger.asked[body].append(self._number)
            sent = self.ledger.sent.get(body)
            group = record.properties["PGROUP"]
            if sent is None:
                commits = sum(record.properties["UNIQ_KEY"].encode()) % 2 == 0
            elif self._last or self.rng.random() < 0.4:
                commits = sent.commits
                sent.told_ms = sent.told_ms or self.clock.now_ms()
            else:
                continue
            decision = _decision(fields, group, commits, check=True)
            connection.oneway(request(RequestCode.END_TRANSACTION, decision, oneway=True))

    # --- producers

    async def level(self) -> None:
        """Send a message with a level."""
        level = self.rng.randint(1, len(LEVELS_S))
        sent = self.ledger.write("level", queue_id=self.rng.randrange(QUEUES))
        sent.due_ms = self.clock.now_ms() + LEVELS_S[level - 1] * 1000
        await self._send(sent, {"DELAY": str(level)})

    async def timer(self) -> None:
        """Send a message with a time."""
        delay_ms = self.rng.choice((50, 900, 2500, 5000, 9000))
        sent = self.ledger.write("timer", queue_id=self.rng.randrange(QUEUES))
        sent.due_ms = self.clock.now_ms() + delay_ms - EARLY_MS
        answer = await self._send(sent, {"TIMER_DELAY_MS": str(delay_ms)})
        if answer is not None:
            sent.handle = answer.ext.get("recallHandle", "")

    async def recall(self) -> None:
        """Take one back that waits."""
        now = self.clock.now_ms()
        waiting = [sent for sent in self.ledger.of("timer") if sent.handle and sent.due_ms > now]
        if not waiting:
            return
        sent = self.rng.choice(waiting)
        sent.recall_asked = True
        header = {"producerGroup": PRODUCERS, "topic": TOPICS["timer"], "recallHandle": sent.handle}
        answer = await self._ask(RequestCode.RECALL_MESSAGE, header)
        if answer is not None and answer.code == 0 and sent.recalled_at is None:
            sent.recalled_at = self.clock.monotonic()

    async def half(self) -> None:
        """Send a half message, and perhaps decide on it at once."""
        sent = self.ledger.write("transaction", queue_id=self.rng.randrange(QUEUES))
        sent.commits = self.rng.random() < 0.6
        answer = await self._send(sent, {"TRAN_MSG": "true", "PGROUP": PRODUCERS}, flag=4)
        if answer is None:
            return
        sent.fields = {
            "tranStateTableOffset": answer.ext["queueOffset"],
            "commitLogOffset": str(int(answer.ext["msgId"][16:], 16)),
            "msgId": sent.unique_id,
        }
        if self.rng.random() < 0.4:
            await self._decide(sent)

    async def decide(self) -> None:
        """Decide an undecided transaction, or repeat a decision."""
        known = [sent for sent in self.ledger.of("transaction") if sent.fields]
        if known:
            await self._decide(self.rng.choice(known[-6:]))

    async def plain(self) -> None:
        """Send a message that will be popped, or fail."""
        sent = self.ledger.write(self.rng.choice(("popped", "popped", "failed")))
        sent.failures = self.rng.choice((0, 1, 1, 2, MOST_TRIES + 1)) if sent.kind == "failed" else 0
        sent.queue_id = self.rng.randrange(QUEUES) if sent.kind == "popped" else 0
        await self._send(sent, {})

    async def _decide(self, sent: Odd) -> None:
        sent.told_ms = sent.told_ms or self.clock.now_ms()
        answer = await self._ask(
            RequestCode.END_TRANSACTION, _decision(sent.fields, PRODUCERS, sent.commits, check=False)
        )
        if answer is not None and answer.code == 0 and sent.decided_at is None:
            sent.decided_at = self.clock.monotonic()

    async def _send(self, sent: Odd, own: dict[str, str], flag: int = 0) -> Command | None:
        text = "".join(f"{name}\x01{value}\x02" for name, value in {"UNIQ_KEY": sent.unique_id, **own}.items())
        header = {"producerGroup": PRODUCERS, "defaultTopic": "TBW102", "defaultTopicQueueNums": "1", "flag": "0"}
        header |= {"bornTimestamp": str(self.clock.now_ms()), "reconsumeTimes": "0", "unitMode": "false"}
        header |= {"topic": TOPICS[sent.kind], "queueId": str(sent.queue_id), "sysFlag": str(flag), "properties": text}
        answer = await self._ask(RequestCode.SEND_MESSAGE, header, sent.body)
        if answer is None or answer.code != 0:
            return None
        sent.sent_at = self.clock.monotonic()
        return answer

    async def _beat(self) -> None:
        groups = [{"groupName": group} for group in (PRODUCERS, *self._groups)]
        body = dumps({"clientID": "kinds", "producerDataSet": groups, "consumerDataSet": []})
        while True:
            await self._ask(RequestCode.HEART_BEAT, {}, body)
            await self.clock.sleep(2)

    # --- a consumer that fails

    async def _consume(self) -> None:
        """Fail each message as often as planned, and commit."""
        while True:
            for queue in (Queue(TOPICS["failed"], 0), Queue(RETRY, 0)):
                await self._consume_some(queue)
            await self.clock.sleep(PAUSE_S)

    async def _consume_some(self, queue: Queue) -> None:
        if queue not in self._positions:
            self._positions[queue] = self.broker.offsets.committed(CONSUMERS, queue) or 0
        start = self._positions[queue]
        header = {"consumerGroup": CONSUMERS, "topic": queue.topic, "queueId": "0", "maxMsgNums": "32", "sysFlag": "4"}
        header |= {"queueOffset": str(start), "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*"}
        answer = await self._ask(RequestCode.PULL_MESSAGE, {**header, "subVersion": "0"})
        for record in iter_records(answer.payload) if answer is not None and answer.code == 0 else ():
            sent = self.ledger.sent.get(bytes(record.body))
            if sent is not None and not await self._fail(sent, record):
                break
            self._positions[queue] = max(self._positions[queue], record.queue_offset + 1)
        if answer is not None and answer.code in (20, 21):  # offsets after the end are reset
            self._positions[queue] = int(answer.ext["nextBeginOffset"])
        if (end := self._positions[queue]) != start:
            self.ledger.highest[queue] = max(self.ledger.highest.get(queue, 0), end)
            commit = {"consumerGroup": CONSUMERS, "topic": queue.topic, "queueId": "0", "commitOffset": str(end)}
            answer = await self._ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
            if answer is not None and answer.code == 0:
                self.ledger.commits.append((self.clock.monotonic(), queue, end))

    async def _fail(self, sent: Odd, record: RecordView) -> bool:
        """Send it back where it is to fail; whether it is done with."""
        times = record.reconsume_times
        if times >= sent.failures:
            self.ledger.consumed.add(sent.body)
            return True
        back = self.ledger.back[sent.body, times]
        if back.at is not None:
            return True
        back.attempts += 1
        header = {"offset": str(record.log_offset), "group": CONSUMERS, "originTopic": TOPICS["failed"]}
        level = str(self.rng.choice((0, 1, 4)))
        header |= {"delayLevel": level, "maxReconsumeTimes": str(MOST_TRIES), "unitMode": "false"}
        answer = await self._ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        if answer is not None and answer.code == 0:
            back.at = self.clock.monotonic()
        return back.at is not None

    # --- a consumer that pops

    async def _pop(self) -> None:
        header = {"consumerGroup": POPPERS, "topic": TOPICS["popped"], "queueId": "-1", "pollTime": "0"}
        while True:
            invisible = self.rng.choice((2000, 4000, 7000))
            most = 32 if self._last else self.rng.choice((1, 3, 32))
            ask = {"maxMsgNums": str(most), "invisibleTime": str(invisible), "bornTime": str(self.clock.now_ms())}
            answer = await self._ask(RequestCode.POP_MESSAGE, {**header, **ask, "initMode": "0"})
            if answer is not None and answer.code == 0:
                for record, handle, popped_ms in _popped(answer):
                    await self._take(record, handle, popped_ms, invisible)
            await self.clock.sleep(PAUSE_S)

    async def _take(self, record: RecordView, handle: str, popped_ms: int, invisible_ms: int) -> None:
        sent = self.ledger.sent[bytes(record.body)]
        if self.losses.sure(sent.acked_at):
            self.ledger.problems.append(f"acknowledged: {sent} came again at {popped_ms}, {handle}")
        elif self.losses.sure(sent.hidden_at) and popped_ms < sent.hidden_ms:
            self.ledger.problems.append(f"early: {sent} came again at {popped_ms}, {handle}")
        sent.pops += 1
        sent.hidden_ms, sent.hidden_at = popped_ms + invisible_ms, self.clock.monotonic()
        choice = 0 if self._last else self.rng.random()
        kind = handle.split(" ")[4]
        header = {"consumerGroup": POPPERS, "extraInfo": handle, "offset": str(record.queue_offset)}
        header |= {"topic": TOPICS["popped"] if kind == "0" else f"%RETRY%{POPPERS}_{TOPICS['popped']}"}
        header |= {"queueId": handle.split(" ")[6]}
        if choice < 0.5:
            sent.asked_ack = True
            answer = await self._ask(RequestCode.ACK_MESSAGE, header)
            in_time = self.clock.now_ms() < sent.hidden_ms
            if answer is not None and answer.code == 0 and in_time:
                sent.acked_at = self.clock.monotonic()
        elif choice < 0.7:
            longer = self.rng.choice((1000, 3000, 6000))
            before, sent.hidden_ms = sent.hidden_ms, 0
            answer = await self._ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, {**header, "invisibleTime": str(longer)})
            if answer is not None and answer.code == 0 and self.clock.now_ms() < before:
                sent.hidden_ms, sent.hidden_at = int(answer.ext["popTime"]) + longer, self.clock.monotonic()

    # --- asking

    async def _ask(self, code: int, ext: dict[str, str], body: bytes | None = None) -> Command | None:
        """Ask once; None where no answer came."""
        assert self.life.server is not None
        host, port = self.life.server.address
        try:
            answer = await self._remoting.call(f"{host}:{port}", request(code, dict(ext), body), timeout_s=CALL_S)
        except GantryError:
            return None
        if answer.code not in FOUND:
            self.ledger.refused += 1
        return answer


def _decision(fields: dict[str, str], group: str, commits: bool, *, check: bool) -> dict[str, str]:
    word = str(COMMIT if commits else ROLLBACK)
    return {**fields, "producerGroup": group, "commitOrRollback": word, "fromTransactionCheck": str(check).lower()}


def _popped(answer: Command) -> list[tuple[RecordView, str, int]]:
    """Each message with its handle and the time of the pop, as RocketMQ's client makes them."""
    starts: dict[str, str] = {}  # of the topic itself; a message that returns carries its handle
    for piece in answer.ext["startOffsetInfo"].split(";"):
        kind, queue_id, start = piece.split(" ")
        if kind == "0":
            starts[queue_id] = start
    found = []
    for record in iter_records(answer.payload):
        handle = record.properties.get("POP_CK")
        if handle is None:
            parts = (starts[str(record.queue_id)], answer.ext["popTime"], answer.ext["invisibleTime"])
            parts += (answer.ext["reviveQid"], "0", "broker-a", str(record.queue_id), str(record.queue_offset))
            handle = " ".join(parts)
        found.append((record, handle, int(handle.split(" ")[1])))
    return found


STEPS: dict[str, tuple[int, Callable[[Kinds], Awaitable[None]]]] = {  # weight and step
    "level": (4, Kinds.level),
    "timer": (4, Kinds.timer),
    "recall": (1, Kinds.recall),
    "half": (5, Kinds.half),
    "decide": (2, Kinds.decide),
    "plain": (6, Kinds.plain),
}
