"""Pulls: 11 and 361.

Source: apache/rocketmq broker/.../processor/PullMessageProcessor.java.
"""

from __future__ import annotations

from gantrymq.broker.consuming.pull import PullForbidden
from gantrymq.broker.parts import Parts
from gantrymq.broker.wire.responses import refusal
from gantrymq.errors import GantryError
from gantrymq.interfaces import PullAnswer, PullRequest
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.pull import PullMessageRequest
from gantrymq.remoting.responses import encode_pull_head
from gantrymq.remoting.serving import in_operation, serves


class PullRequests:
    """Handler for pulls."""

    def __init__(self, parts: Parts) -> None:
        self._pulls = parts.pulls
        self._stats = parts.stats

    @serves(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, access=in_operation)
    def pull(self, asked: Command, connection: Connection) -> Command | None:
        """11, 361: serve a pull; the response may be sent later."""
        header = PullMessageRequest.from_ext(asked.ext, asked.code)
        request = PullRequest(
            header.consumer_group,
            header.topic,
            header.queue_id,
            header.queue_offset,
            header.max_msg_nums,
            header.sys_flag,
            header.commit_offset,
            header.suspend_timeout_millis,
            header.subscription,
            header.sub_version,
            header.expression_type,
            asked.code == RequestCode.LITE_PULL_MESSAGE,
            connection.principal,
        )

        def respond(answer: PullAnswer | GantryError) -> None:
            if connection.closed or asked.is_oneway:
                return
            if isinstance(answer, GantryError):
                connection.reply(asked, _refused(asked, answer))
            else:
                self._send(asked, connection, answer, request)

        try:
            self._pulls.serve(request, connection, respond)
        except GantryError as error:
            return _refused(asked, error)
        return None

    def _send(self, asked: Command, connection: Connection, answer: PullAnswer, request: PullRequest) -> None:
        head = encode_pull_head(
            asked.serialize,
            asked.opaque,
            answer.code,
            answer.remark,
            answer.next_offset,
            answer.min_offset,
            answer.max_offset,
            answer.size,
            suggest_which_broker_id=answer.suggested_broker_id,
            topic_sys_flag=answer.topic_sys_flag,
            group_sys_flag=answer.group_sys_flag,
        )
        if answer.buffers:
            connection.reply_parts([head, *answer.buffers])
        else:
            connection.reply(asked, head)


def _refused(asked: Command, error: GantryError) -> Command:
    ext = {"forbiddenType": str(error.forbidden_type)} if isinstance(error, PullForbidden) else {}
    return refusal(asked, error, ext)
