"""Sessions of the live source with a simulated broker."""

from __future__ import annotations

import json

import pyarrow as pa

from gantrymq_spark.live.offsets import Offsets
from gantrymq_spark.live.options import read_options
from gantrymq_spark.live.pushdown import PushedFilters
from gantrymq_spark.live.range_reader import read_range
from gantrymq_spark.live.session import LiveSession, query_reader, range_read_options

SETTINGS = {"plugins": "storage_mmap,filter_tag,filter_sql92,admin", "store": "mmap", "enablePropertyFilter": True}


def options_of(cluster, streaming=False, **given):
    topics = {} if "subscribePattern" in given else {"subscribe": "T"}
    texts = {"namesrv": cluster.namesrv, **topics, **given}
    return read_options(texts, streaming=streaming, environ={})


async def rows_of(cluster, options, tasks, columns=None):
    """Rows of what tasks read, in order."""
    found = []
    async with query_reader(options, cluster.world) as consumer:
        for task in tasks:
            how = range_read_options(options, columns or options.columns)
            async for batch in read_range(consumer, cluster.world.clock, task, how):
                assert batch.num_rows
                found += pa.Table.from_batches([batch]).to_pylist()
    return found


async def batch_rows(cluster, pushed=PushedFilters(), columns=None, **given):  # noqa: B008 - frozen
    """Rows of a batch query."""
    options = options_of(cluster, **given)
    async with LiveSession(options, cluster.world) as session:
        tasks = await session.batch_tasks(pushed)
    return await rows_of(cluster, options, tasks, columns)


class Stream:
    """A streaming query as Spark runs one: its checkpoint outlives it."""

    def __init__(self, cluster, **given):
        self.cluster, self.given = cluster, given
        self.checkpoint = None  # JSON of where the last micro-batch ended

    def session(self):
        return LiveSession(options_of(self.cluster, streaming=True, **self.given), self.cluster.world)

    async def step(self, session, limited=True):
        """One micro-batch: its rows; None where there is nothing to do."""
        options = options_of(self.cluster, streaming=True, **self.given)
        start = Offsets.from_json(json.loads(self.checkpoint)) if self.checkpoint else await session.initial()
        if self.checkpoint is None:
            self.checkpoint = json.dumps(start.to_json())
        end = await session.latest(start, limited=limited, max_offsets=options.max_offsets)
        if end is start:
            return None
        tasks = await session.tasks(start, end)
        rows = await rows_of(self.cluster, options, tasks, ("queueId", "queueOffset", "body"))
        await session.commit(end)
        self.checkpoint = json.dumps(end.to_json())
        return rows
