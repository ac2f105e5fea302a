"""Failed messages that consumers send back (36).

Source: apache/rocketmq broker/.../processor/AbstractSendMessageProcessor.java (consumerSendMsgBack).
"""

from __future__ import annotations

from gantrymq.broker.parts import Parts
from gantrymq.broker.wire.responses import ok
from gantrymq.interfaces import SendBackRequest
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest
from gantrymq.remoting.serving import in_operation, serves


class SendingBackRequests:
    """Handler for messages sent back."""

    def __init__(self, parts: Parts) -> None:
        self._messages = parts.messages

    @serves(RequestCode.CONSUMER_SEND_MSG_BACK, access=in_operation)
    async def send_back(self, asked: Command, connection: Connection) -> Command:
        """36: store a message again for its next attempt; respond when it is acknowledged."""
        header = ConsumerSendMsgBackRequest.from_ext(asked.ext)
        await self._messages.send_back(
            SendBackRequest(
                header.group,
                header.offset,
                header.delay_level,
                header.max_reconsume_times,
                header.unit_mode,
                asked.version,
                connection.principal,
                header.failure,
            )
        )
        return ok(asked)
