"""Sends: 10 (long field names), 310 (short names), 320 (batch, short names).

Source: apache/rocketmq broker/.../processor/SendMessageProcessor.java.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from gantrymq.broker.parts import Parts
from gantrymq.broker.sending.transactions import Stored
from gantrymq.broker.wire.responses import refusal
from gantrymq.broker.wire.send_templates import SendTemplateCache
from gantrymq.errors import GantryError
from gantrymq.interfaces import PutResult, PutStatus, SendAnswer, SendRequest
from gantrymq.model.ids import OffsetIds
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, response_to
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.send import read_send_header
from gantrymq.remoting.responses import SendResponses
from gantrymq.remoting.sends import SendCommand
from gantrymq.remoting.serving import in_operation, serves

_OK = PutStatus.OK


class SendRequests:
    """Handlers for sends. The responses of a batch are sent with one write per connection."""

    def __init__(self, parts: Parts) -> None:
        self._settings = parts.settings
        self._sends = parts.sends
        self._stats = parts.stats
        self._is_saved = parts.state.is_saved
        self._preparation = parts.preparation
        self._send_templates = SendTemplateCache(
            parts.settings, parts.topics, parts.preparation, parts.access, parts.identity.packed_host
        )
        self._packed_host = parts.identity.packed_host
        self._offset_ids = OffsetIds(parts.identity.packed_host)
        self._answered: dict[Connection, list[bytes]] = {}  # response frames to write
        parts.pipeline.on_answered(self._flush)
        self._read_settings()

    def _read_settings(self) -> None:
        """Read the settings that may change at runtime."""
        self._revision = self._settings.revision
        self._region, self._trace_on = self._settings.text("regionId"), self._settings.flag("traceOn")
        self._ok = SendResponses(self._packed_host, self._region, self._trace_on)

    @serves(RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, access=in_operation)
    def send(self, asked: Command, connection: Connection) -> Command | None:
        """10, 310, 320: check and store a send; the response is sent when it is acknowledged."""
        if self._settings.revision != self._revision:
            self._read_settings()

        def answered(answer: SendAnswer | GantryError) -> None:
            if not asked.is_oneway:
                self._answered.setdefault(connection, [])  # flush this connection, too
                connection.reply(asked, self._answer(asked, answer))

        try:
            request = self._read(asked, connection)
            self._sends.submit(request, answered)
        except GantryError as error:
            return refusal(asked, error, self._region_ext())
        if type(asked) is SendCommand:
            template = self._preparation.template_for(request)
            # A topic that is not saved yet would delay other sends that are stored together with these.
            if template is not None and self._is_saved(template.topic.name):
                self._send_templates.remember(asked, template, connection)
        return None

    def _read(self, asked: Command, connection: Connection) -> SendRequest:
        try:
            return read_send(asked, connection)
        except GantryError:
            self._stats.put_failed += 1
            raise

    def send_together(self, asked: Sequence[Command], start: int, connection: Connection) -> int:
        """Store ``asked[start]`` and the following sends with templates, without checking each of them.

        Returns:
            The number of stored sends; 0 if the first one must be checked.
        """
        if self._settings.revision != self._revision:
            self._read_settings()
        stored: list[tuple[slice, Stored]] = []  # to be called with these results
        messages = self._send_templates.together(asked, start, connection, stored)
        taken = len(messages)
        sends = cast(Sequence[SendCommand], asked[start : start + taken])

        def done(results: Sequence[PutResult], error: GantryError | None) -> None:
            frames = self._answered.setdefault(connection, [])
            if error is None and [result[0] for result in results].count(_OK) == taken:
                if written := self._ok.frames(sends, results):
                    frames.append(written)
                for which, each in stored:
                    each(results[which])
                return
            for send, result in zip(sends, results or (None,) * taken, strict=True):
                if not send.is_oneway:
                    own = () if result is None else (result,)
                    answer = self._sends.answer(send.queue_id, send.unique_id.decode(), None, own, error)
                    connection.reply(send, self._answer(send, answer))

        if taken:
            self._sends.store(messages, done)
        return taken

    def _flush(self) -> None:
        """Write the responses before the loop polls for new requests, so that the senders can continue."""
        answered, self._answered = self._answered, {}
        for connection, frames in answered.items():
            if frames:
                connection.reply_parts(frames)
            connection.flush()

    def _answer(self, asked: Command, answer: SendAnswer | GantryError) -> Command:
        if isinstance(answer, GantryError):
            return refusal(asked, answer, self._region_ext())
        ext = {
            "queueId": str(answer.queue_id),
            **({} if answer.unique_id is None else {"transactionId": answer.unique_id}),
            **({} if answer.batch_id is None else {"batchUniqId": answer.batch_id}),
            "msgId": self._offset_ids.joined(answer.results),
            **self._region_ext(),
            "queueOffset": str(answer.results[0].queue_offset),
            **(answer.fields or {}),
        }
        late = answer.unconfirmed
        code, remark = (0, None) if late is None else (late.response_code, str(late))
        return response_to(asked, code, remark, ext)

    def _region_ext(self) -> dict[str, str]:
        return {"TRACE_ON": "true" if self._trace_on else "false", "MSG_REGION": self._region}


def read_send(asked: Command, connection: Connection) -> SendRequest:
    """Parse a send request.

    Raises:
        RequestError: a header field is missing or not a number.
    """
    header = read_send_header(asked)
    return SendRequest(
        header.producer_group,
        header.topic,
        asked.body,
        header.properties or "",
        header.queue_id,
        header.flag,
        header.sys_flag,
        header.born_timestamp,
        connection.peer_packed_host,
        connection.peer,
        header.default_topic,
        header.default_topic_queue_nums,
        header.reconsume_times,
        header.max_reconsume_times,
        header.unit_mode,
        header.batch or asked.code == RequestCode.SEND_BATCH_MESSAGE,
        asked.version,
        connection.principal,
    )
