"""Undecided half messages of an acting master: sent to other brokers as half messages, which ask the producers then.

An acting master cannot renew a half message in its log, nor settle it. So each is handed over once it is old enough for
a check, in order and one at a time; the committed position of the half queue, which a returning master takes over, is
after those that were. The first that cannot be sent ends the round, and is tried again in the next one: if others were
sent meanwhile, the returning master would not know, and both brokers could commit a transaction.

Source: apache/rocketmq broker/.../transaction/queue/TransactionalMessageServiceImpl.java (check). A Java broker drops a
half message after some failures.
"""

from __future__ import annotations

import logging
from itertools import takewhile

from gantrymq.errors import MessageIllegal
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView, tags_code
from gantrymq.plugin.interfaces import BrokerStorage, PutStatus, StoreMessage
from gantrymq.plugin.properties import ordered_text
from gantrymq.plugin.sys_flag import TRANSACTION_MASK, TRANSACTION_PREPARED
from gantrymq.plugin.world import TimeSlices
from gantrymq_transaction.half_text import TRANSACTION_ID
from gantrymq_transaction.ledger import Ledger
from gantrymq_transaction.messages import real_queue
from gantrymq_transaction.reading import HALF_QUEUE, SLICE, read_these
from gantrymq_transaction.rules import CHECK_TIMES
from gantrymq_transaction.settings import TIMEOUT

log = logging.getLogger(__name__)

_TOGETHER = 32
_OWN = frozenset({props.REAL_TOPIC, props.REAL_QUEUE_ID, TRANSACTION_ID, CHECK_TIMES})  # the other broker adds its own


class HalfEscape:
    """Hands over the undecided half messages of one broker."""

    def __init__(self, broker: BrokerStorage, ledger: Ledger) -> None:
        self._broker, self._ledger = broker, ledger

    async def round(self, now_ms: int) -> None:
        """Hand over what is old enough. Raises StoreError if the disk cannot be read."""
        broker, ledger = self._broker, self._ledger
        end, slices = broker.store.bounds(HALF_QUEUE).max_offset, TimeSlices(broker.world.clock, SLICE)
        latest_ms = now_ms - broker.settings.number(TIMEOUT)
        ledger.settle_before(broker.store.bounds(HALF_QUEUE).min_offset)
        while offsets := ledger.open_offsets(ledger.half_offset, end, _TOGETHER):
            halves = [each async for each in read_these(broker, HALF_QUEUE, offsets, slices)]
            due = list(takewhile(lambda half: half.born_timestamp <= latest_ms, halves))
            if not due or not await self._send(due) or len(due) < len(halves):
                return

    async def _send(self, halves: list[RecordView]) -> bool:
        """Send *halves* up to the first that cannot be sent now. Return whether all of them are handed over."""
        for half in halves:
            try:
                results = await self._broker.messages.put_all([sent_half(half)])
                if results[0].status is not PutStatus.OK:
                    return False
            except MessageIllegal as error:
                log.error("the half message at queue offset %d is given up: %s", half.queue_offset, error)
            self._ledger.settle(half.queue_offset)
        return True


def sent_half(half: RecordView) -> StoreMessage:
    """Return the message to send for a half message. Raises MessageIllegal if it has no target."""
    queue = real_queue(half.properties)
    if queue is None:
        raise MessageIllegal("its properties do not name a topic")
    own = {name: value for name, value in half.properties.items() if name not in _OWN}
    return StoreMessage(
        queue[0],
        queue[1],
        bytes(half.body),
        ordered_text({**own, props.TRAN_MSG: "true"}),
        tags_code(own.get(props.TAGS)),
        half.flag,
        half.sys_flag & ~TRANSACTION_MASK | TRANSACTION_PREPARED,
        half.born_timestamp,
        half.born_host,
        half.store_host,
        half.reconsume_times,
    )
