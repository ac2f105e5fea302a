"""Normal form of a run: times, ids, addresses and log offsets become words.

An id becomes a number in the order in which ids came up, so that two records of one message still show it. A place in
the log becomes the topic, queue and queue offset of the record there. Queue offsets count from the first of the run.
"""

import re
from collections.abc import Iterable

from differential.stored import Stored
from gantrymq.formats.record import RecordView

IDS = {"UNIQ_KEY", "__transactionId__", "CORRELATION_ID", "UNIQUE_KEY"}
TIMES = {
    "CONSUME_START_TIME",
    "ARRIVE_TIME",
    "PUSH_REPLY_TIME",
    "TIMER_OUT_MS",
    "TIMER_ENQUEUE_MS",
    "TIMER_DEQUEUE_MS",
    "TIMER_DELIVER_MS",
    "1ST_POP_TIME",
}
CLIENTS = {"REPLY_TO_CLIENT"}
OFFSET_IDS = {"ORIGIN_MESSAGE_ID"}
WHILE_PULLING = {"MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME"}  # the client adds them to what it hands over
HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
SCHEDULE, TRACE = "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRACE_TOPIC"
REVIVE = "rmq_sys_REVIVE_LOG_"
_ID = re.compile(r"\b(?:[0-9A-F]{32}|[0-9A-F]{56})\b")
_ADDRESS = re.compile(r"\b\d+\.\d+\.\d+\.\d+(:\d+|@[\w#]+)?")
_TIME = re.compile(r"\b1[6-9]\d{11}\b")


class Normal:
    """The replacements of one run.

    Args:
        log: all records of the store.
        start: log offset where the run began.
    """

    def __init__(self, log: Iterable[RecordView], start: int) -> None:
        self._ids: dict[str, str] = {}
        self._first: dict[tuple[str, int], int] = {}
        self._by_log_offset: dict[int, RecordView] = {}
        own: list[str] = []
        for record in log:
            self._by_log_offset[record.log_offset] = record
            if record.log_offset >= start:
                self._first.setdefault((record.topic, record.queue_id), record.queue_offset)
                key = record.properties.get("UNIQ_KEY")
                if key and not is_system(record.topic):
                    own.append(key)
        for key in own:  # before those of the broker's own records, of which there may be more or fewer
            self.id(key)

    def id(self, value: str) -> str:
        """Return a word for an id, the same for the same id."""
        return self._ids.setdefault(value, f"id{len(self._ids) + 1}")

    def queue_offset(self, topic: str, queue_id: int, offset: int) -> int:
        """Return *offset* relative to the first record of the run in that queue."""
        return offset - self._first.get((topic, queue_id), 0)

    def place(self, log_offset: int) -> str:
        """Return the queue and offset of the record at *log_offset*, or the number itself without a record."""
        record = self._by_log_offset.get(log_offset)
        if record is None or log_offset == 0:  # what has no place says 0
            return "nowhere" if log_offset else "0"
        return f"{record.topic}/{record.queue_id}/{self.queue_offset(*_place(record), record.queue_offset)}"

    def property(self, name: str, value: str) -> str:
        """Return the normal form of the value of a property."""
        if name in IDS:
            return self.id(value)
        if name in TIMES:
            return "TIME"
        if name in CLIENTS:
            return "CLIENT"
        if name in OFFSET_IDS:
            return self.place(int(value[16:], 16))
        if name == "TRAN_PREPARED_QUEUE_OFFSET":
            return str(self.queue_offset(HALF, 0, int(value)))
        if name == "POP_CK":
            return self._pop_handle(value)
        return self.text(value)

    def text(self, value: str) -> str:
        """Return any other text with its ids, addresses and times replaced."""
        return _TIME.sub("TIME", _ADDRESS.sub("ADDRESS", _ID.sub(lambda found: self.id(found[0]), value)))

    def body(self, record: RecordView) -> str:
        """Return the normal form of the body of a record."""
        text = bytes(record.body).decode("utf-8", "replace")
        if record.topic == OP:
            offsets = sorted(int(offset) for offset in text.split(",") if offset)
            return f"of {[self.queue_offset(HALF, 0, offset) for offset in offsets]}"
        return self.text(text) if is_system(record.topic) else text

    def tags_code(self, stored: Stored) -> str:
        """Return the tags code of the queue entry; for a delayed message, the delay after its store time in ms."""
        if stored.tags_code is None:
            return "no entry"
        if stored.record.topic == SCHEDULE:
            return f"due after {stored.tags_code - stored.record.store_timestamp}"
        if stored.record.topic.startswith(REVIVE):
            return "due later" if stored.tags_code > 0 else str(stored.tags_code)
        return str(stored.tags_code)

    def _pop_handle(self, value: str) -> str:
        """Replace the number of the revive queue: a broker may choose any."""
        queue_offset, _, invisible, _, retry, broker, queue, *offset = value.split(" ")
        return " ".join([queue_offset, "TIME", invisible, "ANY", retry, broker, queue, *offset])


def is_system(topic: str) -> bool:
    """Return whether a broker or the client itself, not the script, writes to *topic*."""
    return "rmq_sys" in topic.lower() or topic in (SCHEDULE, "TRANS_CHECK_MAX_TIME_TOPIC")


def _place(record: RecordView) -> tuple[str, int]:
    return record.topic, record.queue_id
