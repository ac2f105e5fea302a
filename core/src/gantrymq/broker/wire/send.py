"""Sending: 10 (names), 310 (letters), 320 (batch, letters).

Source: apache/rocketmq broker/.../processor/SendMessageProcessor.java.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from gantrymq.broker.identity import Identity
from gantrymq.broker.pipeline import Done, FlushTimeout, Pipeline
from gantrymq.broker.send import Prepared, Sender, SendRequest
from gantrymq.broker.state_files import StateFiles
from gantrymq.broker.stats import Stats
from gantrymq.broker.wire.answers import refusal
from gantrymq.config import Settings
from gantrymq.errors import GantryError, RefusedWith, StoreError
from gantrymq.interfaces import Connection, Handler, PutResult, PutStatus, StoreMessage
from gantrymq.model.ids import OffsetIds
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, response_to
from gantrymq.remoting.headers.send import read_send_header
from gantrymq.remoting.replies import SendOk
from gantrymq.remoting.sends import Send

_OK = PutStatus.OK


class SendRequests:
    """Serves sends. The answers of a batch leave together, a write for each connection."""

    def __init__(
        self,
        identity: Identity,
        settings: Settings,
        sender: Sender,
        pipeline: Pipeline,
        state: StateFiles,
        stats: Stats,
    ) -> None:
        self._settings = settings
        self._sender = sender
        self._pipeline = pipeline
        self._state = state
        self._stats = stats
        self._packed_host = identity.packed_host
        self._offset_id = OffsetIds(identity.packed_host).of
        self._answered: dict[Connection, list[bytes]] = {}  # frames that are not handed to their connections yet
        pipeline.on_answered(self._flush)
        self._read_settings()

    def _read_settings(self) -> None:
        """Take over what may change while the broker runs."""
        self._revision = self._settings.revision
        self._region, self._trace_on = self._settings.text("regionId"), self._settings.flag("traceOn")
        self._ok = SendOk(self._packed_host, self._region, self._trace_on)

    def handlers(self) -> dict[int, Handler]:
        """Request code to handler."""
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_MESSAGE_V2: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send,
        }

    def send(self, asked: Command, connection: Connection) -> Command | None:
        """Check a send and hand it on; the answer leaves when it is acknowledged. Budget: 12 us."""
        if self._settings.revision != self._revision:
            self._read_settings()
        try:
            prepared = self._prepare(asked, connection)
        except GantryError as error:
            self._stats.put_failed += 1
            return refusal(asked, error, self._region_ext())

        def done(results: Sequence[PutResult], error: GantryError | None) -> None:
            if not asked.is_oneway:
                self._answered.setdefault(connection, [])  # it is flushed with the others
                connection.reply(asked, self._other_answer(asked, prepared, results, error))

        self._submit(prepared.messages, done)
        return None

    def send_alike(self, asked: Sequence[Command], start: int, connection: Connection) -> int:
        """Hand on ``asked[start]`` and those behind it whose checks an earlier send like them passed.

        Returns:
            How many were taken; 0 where the first is to be checked by itself.
        """
        if self._settings.revision != self._revision:
            self._read_settings()
        messages = self._sender.alike.together(asked, start, connection.peer_packed_host)
        taken = len(messages)
        sends = cast(Sequence[Send], asked[start : start + taken])

        def done(results: Sequence[PutResult], error: GantryError | None) -> None:
            frames = self._answered.setdefault(connection, [])
            if error is None and [result[0] for result in results].count(_OK) == taken:
                if written := self._ok.frames(sends, results):
                    frames.append(written)
                return
            for send, message, result in zip(sends, messages, results or (None,) * taken, strict=True):
                if not send.is_oneway:
                    prepared = Prepared((message,), send.queue_id, send.unique_id.decode())
                    own = () if result is None else (result,)
                    connection.reply(send, self._other_answer(send, prepared, own, error))

        if taken:
            self._submit(messages, done)
        return taken

    def _submit(self, messages: Sequence[StoreMessage], done: Done) -> None:
        """Store *messages*, once their topics are on disk: before that none is acknowledged."""
        if all(map(self._state.is_saved, {message.topic for message in messages})):
            self._pipeline.submit(messages, done)
        else:
            self._submit_when_saved(messages, done)

    def _prepare(self, asked: Command, connection: Connection) -> Prepared:
        header = read_send_header(asked)
        request = SendRequest(
            header.producer_group,
            header.topic,
            header.default_topic,
            header.default_topic_queue_nums,
            header.queue_id,
            header.sys_flag,
            header.born_timestamp,
            header.flag,
            header.properties or "",
            header.reconsume_times,
            header.unit_mode,
            header.max_reconsume_times,
            header.batch or asked.code == RequestCode.SEND_BATCH_MESSAGE,
            asked.body,
            connection.peer_packed_host,
            connection.peer,
            asked.version,
        )
        prepared = self._sender.prepare(request)
        if type(asked) is Send:
            self._sender.remember(asked, request)
        return prepared

    def _submit_when_saved(self, messages: Sequence[StoreMessage], done: Done) -> None:
        """A topic is new: no message is acknowledged before the topic is on disk."""

        def saved(problem: StoreError | None) -> None:
            if problem is not None:
                done((), problem)
                return
            try:
                self._pipeline.submit(messages, done)
            except GantryError as error:
                done((), error)

        self._state.when_saved(saved)

    def _flush(self) -> None:
        """Let answers leave before the loop looks for new requests: their senders get on with the next."""
        answered, self._answered = self._answered, {}
        for connection, frames in answered.items():
            if frames:
                connection.reply_parts(frames)
            connection.flush()

    def _other_answer(
        self, asked: Command, prepared: Prepared, results: Sequence[PutResult], error: GantryError | None
    ) -> Command:
        bad = next((result for result in results if result.status is not PutStatus.OK), None)
        if bad is not None or (error is not None and not isinstance(error, FlushTimeout)):
            self._stats.put_failed += 1
            problem = error if bad is None else RefusedWith(bad.status.value, bad.problem or bad.status.name)
            assert problem is not None
            return refusal(asked, problem, self._region_ext())
        first = results[0]
        ext = {
            "queueId": str(prepared.queue_id),
            **({} if prepared.unique_id is None else {"transactionId": prepared.unique_id}),
            **({} if prepared.batch_id is None else {"batchUniqId": prepared.batch_id}),
            "msgId": ",".join(self._offset_id(result.log_offset) for result in results),
            **self._region_ext(),
            "queueOffset": str(first.queue_offset),
        }
        code, remark = (0, None) if error is None else (error.response_code, str(error))
        return response_to(asked, code, remark, ext)

    def _region_ext(self) -> dict[str, str]:
        return {"TRACE_ON": "true" if self._trace_on else "false", "MSG_REGION": self._region}
