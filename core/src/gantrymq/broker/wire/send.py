"""Sending: 10 (names), 310 (letters), 320 (batch, letters).

Source: apache/rocketmq broker/.../processor/SendMessageProcessor.java.
"""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.broker.identity import Identity
from gantrymq.broker.pipeline import Done, FlushTimeout, Pipeline
from gantrymq.broker.send import Prepared, Sender, SendRequest
from gantrymq.broker.state_files import StateFiles
from gantrymq.broker.stats import Stats
from gantrymq.broker.wire.answers import refusal
from gantrymq.config import Settings
from gantrymq.errors import GantryError, RefusedWith, StoreError
from gantrymq.interfaces import Connection, Handler, PutResult, PutStatus
from gantrymq.model.ids import OffsetIds
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, response_to
from gantrymq.remoting.headers import read_send_header
from gantrymq.remoting.replies import encode_send_ok
from gantrymq.remoting.send_shapes import ShapedSend


class SendRequests:
    """Serves sends."""

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
        self._region = settings.text("regionId")
        self._offset_id = OffsetIds(identity.packed_host).of
        self._answered: dict[Connection, None] = {}  # connections with answers that have not left
        pipeline.on_answered(self._flush)

    def handlers(self) -> dict[int, Handler]:
        """Request code to handler."""
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_MESSAGE_V2: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send,
        }

    def send(self, asked: Command, connection: Connection) -> Command | None:
        """Check a send and hand it on; the answer leaves when it is acknowledged. Budget: 5 us, 12 us a new shape."""
        prepared = self._sender.repeat(asked, connection.peer_packed_host) if type(asked) is ShapedSend else None
        if prepared is None:
            try:
                prepared = self._prepare(asked, connection)
            except GantryError as error:
                self._stats.put_failed += 1
                return refusal(asked, error, self._region_ext())
        ready = prepared

        def done(results: Sequence[PutResult], error: GantryError | None) -> None:
            self._answer(asked, connection, ready, results, error)

        if self._state.is_saved(prepared.messages[0].topic):
            self._pipeline.submit(prepared.messages, done)
        else:
            self._submit_when_saved(prepared, done)
        return None

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
        if type(asked) is ShapedSend:
            self._sender.remember(asked, request)
        return prepared

    def _submit_when_saved(self, prepared: Prepared, done: Done) -> None:
        """The topic is new: no message is acknowledged before the topic is on disk."""

        def saved(problem: StoreError | None) -> None:
            if problem is not None:
                done((), problem)
                return
            try:
                self._pipeline.submit(prepared.messages, done)
            except GantryError as error:
                done((), error)

        self._state.when_saved(saved)

    def _answer(
        self,
        asked: Command,
        connection: Connection,
        prepared: Prepared,
        results: Sequence[PutResult],
        error: GantryError | None,
    ) -> None:
        if asked.is_oneway:
            return
        self._answered[connection] = None
        if error is None and len(results) == 1 and results[0].status is PutStatus.OK and prepared.batch_id is None:
            result = results[0]
            connection.reply(
                asked,
                encode_send_ok(
                    asked.serialize,
                    asked.opaque,
                    self._offset_id(result.log_offset),
                    prepared.queue_id,
                    result.queue_offset,
                    prepared.unique_id,
                    self._region,
                    self._settings.flag("traceOn"),
                ),
            )
        else:
            connection.reply(asked, self._other_answer(asked, prepared, results, error))

    def _flush(self) -> None:
        """Let answers leave before the loop looks for new requests: their senders get on with the next."""
        answered, self._answered = self._answered, {}
        for connection in answered:
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
        return {"TRACE_ON": "true" if self._settings.flag("traceOn") else "false", "MSG_REGION": self._region}
