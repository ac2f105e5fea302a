"""Operators' requests about the transactions of a broker.

| Code | |
|---|---|
| 323 | RocketMQ's RESUME_CHECK_HALF_MESSAGE: a message of TRANS_CHECK_MAX_TIME_TOPIC becomes a half message again |
| 65011 | GantryMQ's own: a page of undecided or given-up transactions |
| 65012 | GantryMQ's own: all messages of one transaction |

The bodies of our own requests are JSON; their members are in `listing`.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (resumeCheckHalfMessage).
"""

from __future__ import annotations

from typing import Final

from gantrymq.errors import RequestRefused, ServiceNotAvailable
from gantrymq.plugin import loose_json
from gantrymq.plugin.headers import ResumeCheckHalfMessageRequest
from gantrymq.plugin.interfaces import PutStatus
from gantrymq.plugin.model import Action, parse_offset_id
from gantrymq.plugin.names import CHECK_MAX_TIME_TOPIC
from gantrymq.plugin.remoting import Command, Connection, RequestCode, object_body_of, response_to, serves
from gantrymq_transaction.copies import committed_message, key_of
from gantrymq_transaction.half_checker import retention_hours
from gantrymq_transaction.listing import TransactionQuery, details, page
from gantrymq_transaction.messages import real_queue, resumed
from gantrymq_transaction.reading import view
from gantrymq_transaction.rules import SYSTEM_ERROR
from gantrymq_transaction.service import RocketTransactions

_LIST_TRANSACTIONS: Final = 65011
_SHOW_TRANSACTION: Final = 65012


class TransactionRequests:
    """Handlers of these requests, and factory of the service; one object per load of the plugin."""

    def __init__(self) -> None:
        self._service: RocketTransactions | None = None

    def make_service(self) -> RocketTransactions:
        """Create the transaction service."""
        self._service = RocketTransactions()
        return self._service

    @serves(RequestCode.RESUME_CHECK_HALF_MESSAGE, action=Action.UPDATE, topic="topic")
    async def resume(self, request: Command, _connection: Connection) -> Command:
        """Answer request 323, for given-up messages only; a Java broker turns any message into a half message."""
        try:
            broker = self._running().broker
        except ServiceNotAvailable as error:  # a Java slave cannot store the message either
            raise RequestRefused(SYSTEM_ERROR, str(error)) from None
        header = ResumeCheckHalfMessageRequest.from_ext(request.ext)
        try:
            log_offset = parse_offset_id(header.msg_id)[2]
        except ValueError as problem:
            raise RequestRefused(SYSTEM_ERROR, f"{header.msg_id} is not an offset id: {problem}") from None
        record = await view(broker, log_offset)
        if record is None or record.topic != CHECK_MAX_TIME_TOPIC or real_queue(record.properties) is None:
            raise RequestRefused(
                SYSTEM_ERROR,
                f"{header.msg_id} is no message of {CHECK_MAX_TIME_TOPIC}; gantrymq transactions list --given-up lists "
                "them",
            )
        if await committed_message(broker, key_of(record.properties)) is not None:
            raise RequestRefused(
                SYSTEM_ERROR, f"the transaction of {header.msg_id} was committed; there is nothing to check"
            )
        age_ms, keep_hours = broker.world.clock.now_ms() - record.born_timestamp, retention_hours(broker)
        if age_ms > keep_hours * 3600_000:
            raise RequestRefused(
                SYSTEM_ERROR,
                f"the message of {header.msg_id} was born {age_ms // 3600_000} hours ago; half messages older than "
                f"{keep_hours} hours (fileReservedTime) are given up at once, so no check would be sent",
            )
        (result,) = await broker.messages.put_all([resumed(record)], skip_interceptors=True)
        if result.status is not PutStatus.OK:
            raise result.error()
        return response_to(request)

    @serves(_LIST_TRANSACTIONS, action=Action.GET)
    async def list(self, request: Command, _connection: Connection) -> Command:
        """Answer request 65011: a page of transactions."""
        service = self._running()
        wanted = TransactionQuery.of(object_body_of(request) if request.body else {})
        return response_to(request, body=loose_json.dumps(await page(service, wanted)))

    @serves(_SHOW_TRANSACTION, action=Action.GET)
    async def show(self, request: Command, _connection: Connection) -> Command:
        """Answer request 65012: all copies of a half message, and the committed message."""
        service = self._running()
        wanted = object_body_of(request) if request.body else {}
        unique_id = wanted.get("unique_id")
        if not isinstance(unique_id, str) or not unique_id:
            raise RequestRefused(SYSTEM_ERROR, "name the transaction by unique_id, the unique id of its message")
        return response_to(request, body=loose_json.dumps(await details(service, unique_id)))

    def _running(self) -> RocketTransactions:
        if self._service is None:
            raise ServiceNotAvailable("this broker's transactions are served by another plugin")
        return self._service
