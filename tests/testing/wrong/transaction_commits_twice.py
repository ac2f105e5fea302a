"""A transaction service that treats each commit as the first, and lets any group decide."""

import sys
from pathlib import Path

from gantrymq_testing import TransactionContract

sys.path.insert(0, str(Path(__file__).parents[2] / "core" / "broker"))
from memory_transactions import MemoryTransactions


class Twice(MemoryTransactions):
    async def end(self, request):
        half = self.broker.messages.read(request.half_log_offset)
        if half is not None:
            self.open.add(half.queue_offset)
            request = request._replace(producer_group=half.properties.get("PGROUP", ""))
        return await super().end(request)


class TestTwice(TransactionContract):
    make_service = Twice
