"""Bodies of stored messages, as clients get them."""

from __future__ import annotations

from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.sys_flag import COMPRESSED
from gantrymq.plugin.world import Workers
from gantrymq_grpc.conversion.messages import Body, body_of


async def plain_body(record: RecordView, workers: Workers) -> Body:
    """Return the body of *record*; a compressed one is decompressed by a worker."""
    if record.sys_flag & COMPRESSED:
        return await workers.run(body_of, record)
    return body_of(record)
