"""Dead letters of a consumer group: reading them, and sending them again.

They are in the topic %DLQ%group of every broker with failed messages. Brokers create it readable and writable since
4.9.2; older ones write-only, and then it must be made readable first. Reading commits nothing.

A message sent again keeps its body, flag, keys, tag, unique id and every property of its sender. Properties added by
brokers and consumers because of the failures are removed, so that it is a new message to them, with a new count of
tries: the delay, the counts, transaction marks. RETRY_TOPIC and ORIGIN_MESSAGE_ID remain; they name its origin. A dead
letter cannot be changed, so its copy gets properties: `RESENT_FROM` with the place of the letter, `RESENT_GROUP` with
its group and `RESENT_BY` with who sent it. `resent.Resent` finds the copy by them.

Source: apache/rocketmq common/.../message/MessageConst.java (names), common/.../KeyBuilder.java,
client/.../impl/consumer/DefaultMQPushConsumerImpl.java (sendMessageBack, resetRetryAndNamespace).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from shlex import quote
from typing import Final

import attrs

from gantrymq.client import Message, PullStatus, Reader, ReceivedMessage
from gantrymq.errors import ClientError, GroupNotExist, NoRoute
from gantrymq.plugin import names
from gantrymq.plugin import properties as props
from gantrymq.plugin.client import split_properties
from gantrymq.plugin.model import MessageQueue

RESENT_FROM: Final = "DLQ_RESENT_FROM"  # places of the dead letters that a message was sent from, the latest last
RESENT_GROUP: Final = "DLQ_RESENT_GROUP"  # group of the latest of these dead letters
RESENT_BY: Final = "DLQ_RESENT_BY"  # who sent it: the command, or a user of the console
_MOST_PLACES: Final = 16  # of a message that was a dead letter again and again

_POP_MARKS: Final = "_+"  # between group and topic in the names of pop's retry topics

_PAGE: Final = 32  # messages per response of a broker

_OF_THE_FAILURE = (
    props.DELAY,
    props.WAIT,
    props.TRAN_MSG,
    props.POP_CK,
    props.INNER_NUM,
    props.INNER_BASE,
    props.INNER_MULTI_QUEUE_OFFSET,
    props.TIMER_DELAY_SEC,
    props.TIMER_DELAY_MS,
    props.TIMER_DELIVER_MS,
    props.TIMER_OUT_MS,
    props.REAL_TOPIC,
    props.REAL_QUEUE_ID,
    props.CONSUME_FAILURE,
    "RECONSUME_TIME",
    "MAX_RECONSUME_TIMES",
    "CONSUME_START_TIME",
    "MIN_OFFSET",
    "MAX_OFFSET",
    "1ST_POP_TIME",
    "TRANSACTION_CHECK_TIMES",
    "__transactionId__",
)


@attrs.frozen
class DeadQueue:
    """The dead letters at one broker, as a range of queue offsets."""

    queue: MessageQueue
    min_offset: int
    max_offset: int

    @property
    def count(self) -> int:
        """The number of dead letters."""
        return self.max_offset - self.min_offset


async def dead_queues(consumer: Reader, group: str) -> list[DeadQueue]:
    """Return the group's dead letter queues, broker by broker; empty if it has none.

    Raises:
        GroupNotExist: no broker knows the group.
        NoRoute: its dead letter topic cannot be read; the message has the remedy.
    """
    return [await dead_queue(consumer, each) for each in await queues_of_dead(consumer, group)]


async def queues_of_dead(consumer: Reader, group: str) -> Sequence[MessageQueue]:
    """Return the queues of the group's dead letters, usually one of each broker. Raises as `dead_queues`."""
    topic = names.dead_letter_topic(group)
    try:
        return await consumer.queues(topic)
    except NoRoute as problem:
        if "grants reading" in str(problem):
            raise NoRoute(
                f"topic {topic} is for writing only at its brokers; open it with: "
                f"gantrymq topic create -t {quote(topic)} -r 1 -w 1 --perm 6"
            ) from None
        await _look_for(consumer, group)
        return []


async def dead_queue(consumer: Reader, queue: MessageQueue) -> DeadQueue:
    """Return the range of the dead letters in a queue. Raises ClientError: its broker does not answer."""
    return DeadQueue(queue, await consumer.min_offset(queue), await consumer.max_offset(queue))


async def pages(
    consumer: Reader, queue: MessageQueue, start: int, end: int
) -> AsyncGenerator[tuple[ReceivedMessage, ...], None]:
    """Yield the letters of *queue* from queue offset *start* to before *end*, a page at a time, never an empty page.

    Errors as `Reader.pull`.
    """
    at = start
    while at < end:
        result = await consumer.pull(queue, at, max_count=min(_PAGE, end - at))
        found = tuple(each for each in result.messages if each.queue_offset < end)
        if found:
            yield found
        if result.status is PullStatus.NO_NEW_MSG or result.next_offset <= at:
            return
        at = result.next_offset


def origin_of(letter: ReceivedMessage, group: str) -> str | None:
    """Return the original topic; None if unknown, because another program stored the letter."""
    topic = letter.properties.get(props.RETRY_TOPIC)
    own = names.retry_topic(group)
    if topic is None or not topic.startswith(tuple(own + mark for mark in _POP_MARKS)):
        return topic
    return topic[len(own) + 1 :]  # it was popped, revived and failed again


def pop_retry_topic(group: str, topic: str) -> str:
    """Return pop's retry topic of a group for *topic*, in the form that clients may send to."""
    return f"{names.retry_topic(group)}_{topic}"


def why(letter: ReceivedMessage) -> str:
    """Return the reason of the failure, as far as the record has it."""
    times = f"failed {letter.reconsume_times} time{'' if letter.reconsume_times == 1 else 's'}"
    sentence = {
        "0": f"{times} and was sent back",
        "-1": f"{times} in order, or where sending back did not work, and was sent by its consumer",
    }.get(letter.properties.get(props.DELAY, ""), f"{times}; put here by something else than a broker")
    failure = letter.properties.get(props.CONSUME_FAILURE)
    return f"{sentence}; {failure}" if failure else sentence


def place_of(letter: ReceivedMessage) -> str:
    """Return the place of a letter, ``broker:offset``."""
    return f"{letter.broker_name}:{letter.queue_offset}"


def is_from(copy: ReceivedMessage, group: str, place: str) -> bool:
    """Return whether *copy* was sent from the dead letter of *group* at *place*.

    Two groups may have dead letters of one message at the same place; copies of earlier versions do not name the group.
    """
    places = copy.properties.get(RESENT_FROM, "").split()
    return place in places and (place != places[-1] or copy.properties.get(RESENT_GROUP, group) == group)


def again(letter: ReceivedMessage, topic: str, by: str = "") -> Message:
    """Return the message that sends a letter to *topic*, with the properties of a copy if it is a dead letter.

    Args:
        letter: any message.
        topic: to send it to.
        by: who sends it.

    Raises:
        ClientError: its body cannot be decoded, and would differ for its consumers.
    """
    if letter.body_problem:
        raise ClientError(f"the dead letter at {place_of(letter)} is not sent again: {letter.body_problem}")
    own, system = split_properties(
        {name: value for name, value in letter.properties.items() if name not in _OF_THE_FAILURE}
    )
    if letter.topic.startswith(names.DLQ_PREFIX):
        places = [*own.get(RESENT_FROM, "").split(), place_of(letter)]
        own[RESENT_FROM] = " ".join(places[-_MOST_PLACES:])
        own[RESENT_GROUP] = letter.topic.removeprefix(names.DLQ_PREFIX)
        own.pop(RESENT_BY, None)
        if by:
            own[RESENT_BY] = by
        system.setdefault(props.UNIQ_KEY, letter.message_id)  # by which `resent` finds the copy
    return Message(topic, letter.body, flag=letter.flag, properties=own, system_properties=system)


async def _look_for(consumer: Reader, group: str) -> None:
    try:
        await consumer.queues(names.retry_topic(group))
    except NoRoute:
        raise GroupNotExist(
            f"no broker has dead letters of a group {group}, nor its retries; 'gantrymq group list' shows the groups "
            "there are"
        ) from None
