"""Redelivery of messages that were not consumed.

    clustering      sent back to the broker, which delivers it again after a delay, or stores it as a dead letter; if
                    that fails, a copy is sent to the retry topic of the group; if that fails too, it is retried here
    broadcasting    logged
    orderly         retried here, before all other messages of its queue; after `tries` a dead letter

Source: apache/rocketmq client/.../impl/consumer/DefaultMQPushConsumerImpl.java (sendMessageBack),
ConsumeMessageConcurrentlyService.java (processConsumeResult), ConsumeMessageOrderlyService.java (checkReconsumeTimes).
"""

from __future__ import annotations

import logging
from typing import Final

from gantrymq.client.calls.rpc import OFFSET_CALL_TIMEOUT_S
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.group.delivery_queue import DeliveryQueue
from gantrymq.client.group.process_queue import ProcessQueue
from gantrymq.client.group.settings import ConsumerSettings
from gantrymq.client.message import Message, ReceivedMessage, split_properties
from gantrymq.client.sending.encoded_message import prepare
from gantrymq.client.sending.message_sender import MessageSender, Submission
from gantrymq.client.sending.producer_settings import SEND_TIMEOUT_S, ProducerSettings
from gantrymq.client.sending.retries import RetryPolicy
from gantrymq.client.sending.send_requests import ProducerFields
from gantrymq.errors import GantryError, InvalidParameter
from gantrymq.model import properties as names
from gantrymq.model.names import RETRY_PREFIX
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest

logger = logging.getLogger("gantrymq.client")

LOCAL_RETRY_S: Final = 5.0  # as in RocketMQ's submitConsumeRequestLater
_INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"  # RocketMQ's producer group for copies
_FIRST_LEVEL: Final = 3  # delay level of the first copy that the client sends; one more with each try
_TIMED_OUT_LEVEL: Final = 3  # as in RocketMQ's ProcessQueue.cleanExpiredMsg
_RECONSUME_TIME: Final = "RECONSUME_TIME"
_MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"


class ReconsumeLater(Exception):
    """Raised by a handler to have the message delivered again after the delay of *delay_level*.

    0 leaves the delay to the broker (10 s, 30 s, 1 min, ... with each try); below 0 makes it a dead letter at once. In
    orderly mode the queue waits for ``suspend_s`` in either case. Any other exception acts as level 0, except
    KeyboardInterrupt and SystemExit, which end `Consumer.run`.
    """

    def __init__(self, delay_level: int = 0) -> None:
        if not isinstance(delay_level, int):
            raise InvalidParameter(f"the delay level of ReconsumeLater is {delay_level!r}; expected a number")
        super().__init__(delay_level)
        self.delay_level = delay_level

    def __str__(self) -> str:
        return f"reconsume later, delay level {self.delay_level}"


class Redelivery:
    """Redelivers the failed messages of one consumer."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: ConsumerSettings,
        deliveries: DeliveryQueue,
        unit_mode: bool = False,
    ) -> None:
        """Create the redelivery of one consumer; messages to be retried here are offered to *deliveries*."""
        self._instance = instance
        self._group = group
        self._settings = settings
        self._deliveries = deliveries
        self._unit_mode = unit_mode
        self._sender = MessageSender(instance, ProducerFields(_INNER_GROUP), ProducerSettings(), _ignore_oneway)

    def close(self) -> None:
        """Send no more messages."""
        self._sender.end()

    async def failed(self, pq: ProcessQueue, message: ReceivedMessage, level: int, failure: str | None = None) -> None:
        """Redeliver a message of *pq*. Raises nothing; does nothing once the queue was given up.

        Args:
            pq: its process queue.
            message: the message.
            level: delay level of the next try.
            failure: class and text of the exception, for a dead letter.
        """
        if failure is None and level < 0:
            failure = f"rejected with delay level {level}"
        failure = (failure or "")[: self._settings.failure_chars] or None
        if pq.dropped or not pq.holds(message):
            return
        if self._settings.orderly:
            await self._retry_in_order(pq, message, failure)
        elif self._settings.broadcasting:
            logger.warning("message %s of %s was not consumed; it is not delivered again", message.message_id, pq.queue)
            pq.finish([message])
        elif await self._send_back(message, level, failure):
            pq.finish([message])
        else:
            message.reconsume_times += 1
            self._instance.world.clock.call_later(LOCAL_RETRY_S, lambda: self._retry_here(pq, message))

    async def timed_out(self, pq: ProcessQueue, message: ReceivedMessage) -> None:
        """Send back a message that exceeded the consume timeout; the broker may deliver it to another member."""
        if await self._send_back(message, _TIMED_OUT_LEVEL):
            pq.finish([message])

    def _retry_here(self, pq: ProcessQueue, message: ReceivedMessage) -> None:
        pq.suspended = False
        pq.give_back([message])
        self._deliveries.offer(pq)

    async def _retry_in_order(self, pq: ProcessQueue, message: ReceivedMessage, failure: str | None) -> None:
        if message.reconsume_times >= self._settings.tries and await self._send_copy(message, failure):
            pq.finish([message])
            self._deliveries.offer(pq)
            return
        message.reconsume_times += 1
        pq.suspended = True
        pq.give_back([message])
        self._instance.world.clock.call_later(self._settings.suspend_s, lambda: self._retry_here(pq, message))

    async def _send_back(self, message: ReceivedMessage, level: int, failure: str | None = None) -> bool:
        """Send the message back to its broker, or a copy if that fails. Return False if both fail."""
        header = ConsumerSendMsgBackRequest(
            offset=message.log_offset,
            group=self._group,
            delay_level=level,
            origin_msg_id=message.offset_id,
            origin_topic=message.topic,
            unit_mode=self._unit_mode,
            max_reconsume_times=self._settings.tries,
            failure=failure,
        )
        try:
            address = await self._instance.routes.find_broker(message.topic, message.broker_name)
            code = RequestCode.CONSUMER_SEND_MSG_BACK
            await self._instance.rpc.call(address, code, header, timeout_s=OFFSET_CALL_TIMEOUT_S)
        except GantryError as problem:
            self._instance.outages.failed(f"sending back messages of {message.topic} for {self._group}", problem)
            return await self._send_copy(message, failure)
        return True

    async def _send_copy(self, message: ReceivedMessage, failure: str | None) -> bool:
        """Send a copy to the retry topic of the group, where the broker counts tries as for messages sent back."""
        if message.body_problem:
            return False
        copy = retry_copy(message, self._group, self._settings.tries, failure)
        submission = Submission(copy.topic, len(copy.body), lambda: prepare(copy, self._instance.ids.next))
        try:
            await self._sender.send(submission, None, SEND_TIMEOUT_S, RetryPolicy(attempts=3))
        except GantryError as problem:
            self._instance.outages.failed(f"sending messages to {copy.topic}", problem)
            return False
        return True


def retry_copy(message: ReceivedMessage, group: str, tries: int, failure: str | None = None) -> Message:
    """Return the copy of *message* that is sent to the retry topic, with the *failure* if it will be a dead letter."""
    properties, system_properties = split_properties(message.properties)
    if failure and message.reconsume_times >= tries:
        system_properties[names.CONSUME_FAILURE] = names.on_one_line(failure)
    system_properties.pop(names.TRAN_MSG, None)
    system_properties.setdefault(names.ORIGIN_MESSAGE_ID, message.message_id)
    system_properties[names.RETRY_TOPIC] = message.topic
    system_properties[_RECONSUME_TIME] = str(message.reconsume_times + 1)
    system_properties[_MAX_RECONSUME_TIMES] = str(tries)
    system_properties[names.DELAY] = str(_FIRST_LEVEL + message.reconsume_times)
    return Message(
        RETRY_PREFIX + group,
        message.body,
        flag=message.flag,
        properties=properties,
        system_properties=system_properties,
    )


def _ignore_oneway() -> None:
    """Do nothing: no oneway messages are sent."""
