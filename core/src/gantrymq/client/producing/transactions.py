"""Transactional messages, which consumers see once the sender's own work is done.

    producer = client.transaction_producer("shop", check)
    async with producer.transaction(Message("Orders", b"paid")) as transaction:
        await database.commit(transaction.id)      # an exception rolls back

The message is first stored as a half message, which consumers cannot see; leaving the block commits it. If the decision
does not reach the broker, it calls *check* on any member of the producer's group, which must find the decision in the
database.

Source: apache/rocketmq client/.../impl/producer/DefaultMQProducerImpl.java (sendMessageInTransaction, endTransaction,
checkTransactionState).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Unpack

import attrs

from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.message import Message, ReceivedMessage, TransactionState
from gantrymq.client.producing.producer import Producer, ProducerOptions
from gantrymq.client.sending.results import SendResult
from gantrymq.client.sending.validation import check_message_kind
from gantrymq.client.user_functions import await_result, check_function, is_failure, running_task
from gantrymq.errors import ClientError, GantryError
from gantrymq.model import properties as names
from gantrymq.model.ids import parse_offset_id
from gantrymq.remoting import command
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.send import EndTransactionRequest

logger = logging.getLogger("gantrymq.client")

_ANSWER_TIMEOUT_S: Final = 3.0

Check = Callable[[ReceivedMessage], TransactionState | Awaitable[TransactionState]]


@attrs.define
class Transaction:
    """A stored half message."""

    sent: SendResult
    state: TransactionState | None = None  # may be set to decide without an exception

    @property
    def id(self) -> str:
        """The message's unique id, by which `Check` finds the outcome."""
        return self.sent.message_id


class TransactionProducer(Producer):
    """A `Producer` with transactions; created by `Client.transaction_producer`."""

    def __init__(self, group: str, check: Check, **options: Unpack[ProducerOptions]) -> None:
        """Store the options, as `Client.transaction_producer` passes them on. Raises as `Producer`."""
        check_function(check, f"the check of {group}")
        super().__init__(group, **options)
        self._check = check

    def _register(self, instance: ClientInstance) -> None:
        super()._register(instance)
        instance.broker_requests.checks[self.group] = self._check_requested

    async def _unregister(self, instance: ClientInstance) -> None:
        instance.broker_requests.checks.pop(self.group, None)
        await super()._unregister(instance)

    @asynccontextmanager
    async def transaction(self, message: Message, timeout_s: float | None = None) -> AsyncIterator[Transaction]:
        """Store *message* as a half message and decide on it when the block ends.

        An exception rolls it back and propagates; otherwise it is committed, or ended with `Transaction.state` if set.
        A decision that the broker does not confirm is logged, even after `close`, and the broker calls `Check`.

        Args:
            message: is not modified; must not be delayed.
            timeout_s: see `Producer.send`.

        Raises:
            ClientError: before the block is entered, as `Producer.send`, or if the half message was not stored as
                safely as the broker promises.
        """
        check_message_kind(message)
        half = attrs.evolve(message, system_properties=self._marked(message))
        if message.delay_level or message.delay_ms is not None or message.deliver_at_ms is not None:
            raise ClientError("a message of a transaction cannot be delayed; send it on its own")
        transaction = Transaction(await self.send(half, timeout_s=timeout_s))
        if not transaction.sent.ok:
            await self._end(message, transaction, TransactionState.ROLLBACK)
            raise ClientError(f"the transaction was not begun: the broker answered {transaction.sent.status.name}")
        try:
            yield transaction
        except BaseException:
            await self._end(message, transaction, TransactionState.ROLLBACK)
            raise
        await self._end(message, transaction, transaction.state or TransactionState.COMMIT)

    def _marked(self, message: Message) -> dict[str, str]:
        return {**message.system_properties, names.TRAN_MSG: "true", names.PRODUCER_GROUP: self.group}

    async def _end(self, message: Message, transaction: Transaction, state: TransactionState) -> None:
        """Send the decision to the broker of the half message.

        Never raises: the broker checks transactions whose outcome it does not know.
        """
        transaction.state, sent = state, transaction.sent
        try:
            instance = self._started()
            if self._hooks is not None:
                master = instance.routes.master(sent.queue.broker_name) or ""
                self._hooks.ended(message, transaction.id, sent.transaction_id, state, master, from_check=False)
            if state is TransactionState.UNKNOWN:  # nothing to send; the broker checks later
                return
            header = EndTransactionRequest(
                topic=sent.queue.topic,
                producer_group=self.group,
                tran_state_table_offset=sent.queue_offset,
                commit_log_offset=parse_offset_id(sent.offset_id)[2],
                commit_or_rollback=state.value,
                msg_id=sent.message_id,
                transaction_id=sent.transaction_id,
            )
            address = await instance.routes.find_broker(sent.queue.topic, sent.queue.broker_name)
            await instance.rpc.call(address, RequestCode.END_TRANSACTION, header, timeout_s=_ANSWER_TIMEOUT_S)
        except GantryError as problem:  # the producer may have been closed inside the block
            logger.warning("%s of transaction %s: %s; the broker will check", state.name, transaction.id, problem)

    async def _check_requested(self, message: ReceivedMessage, asked: Command, address: str) -> None:
        """Answer a broker's check of *message*."""
        fields = asked.ext or {}
        name, task = f"the check of {self.group}", running_task()
        try:
            state = await await_result(self._check(message), name)
            if not isinstance(state, TransactionState):
                raise TypeError(f"{name} returned {state!r}, expected a TransactionState")
        except BaseException as error:
            if not is_failure(error, task):
                raise
            logger.exception("checking transaction %s", message.message_id)
            state = TransactionState.UNKNOWN
        if self._hooks is not None:
            transaction_id = fields.get("transactionId")
            self._hooks.ended(message, message.message_id, transaction_id, state, address, from_check=True)
        header = EndTransactionRequest(
            topic=message.topic,
            producer_group=self.group,
            tran_state_table_offset=int(fields.get("tranStateTableOffset", "0")),
            commit_log_offset=int(fields.get("commitLogOffset", "0")),
            commit_or_rollback=state.value,
            from_transaction_check=True,
            msg_id=fields.get("msgId") or message.message_id,
            transaction_id=fields.get("transactionId"),
        )
        answer = command.request(RequestCode.END_TRANSACTION, header.to_ext(), oneway=True)
        await self._started().rpc.oneway(address, answer, _ANSWER_TIMEOUT_S)
