"""`rebuild` with Spark tasks: byte for byte the broker's files, on a log of 2 GB and on small ones."""

import asyncio
import filecmp
import time
from functools import partial

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")

from golden_stores import SCENARIOS
from spark_columns import golden_names
from test_rebuild_golden import LEFT_OUT, contents

from gantrymq.config import Settings
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import PutStatus, StoreContext, StoreMessage
from gantrymq.world.real import RealClock, RealFiles, real_world
from gantrymq_spark.jobs.rebuild import over_spark, rebuild
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore

pytestmark = pytest.mark.spark
TAGS = [f"Tag{number}" for number in range(7)]
CODES = [tags_code(tag) for tag in TAGS]
SMALL = {"mappedFileSizeCommitLog": 4 << 20, "mappedFileSizeConsumeQueue": 40_000}
INDEX = {"maxHashSlotNum": 5_000, "maxIndexNum": 20_000}
PROPERTIES = b"UNIQ_KEY\x01%032X\x02WAIT\x01true\x02TAGS\x01%b\x02KEYS\x01order-%d user-%d\x02CLUSTER\x01Default\x02"


def batch(first):
    """1,000 messages of 5 topics with 4 queues, 1 KB on the mean."""
    for n in range(first, first + 1000):
        tag = n * 31 % len(TAGS)
        properties = PROPERTIES % (n, TAGS[tag].encode(), n // 3, n % 1000)
        body = b"x" * (n * 7919 % 1600)
        yield StoreMessage(f"Topic{n % 5}", n // 5 % 4, body, properties, tags_code=CODES[tag], born_timestamp=n)


async def filled(root, log_bytes, sizes):
    world = real_world()
    store = MmapStore(StoreContext(world, root, Settings(SCHEMA, {"diskSpaceWarningLevelRatio": 99, **sizes}), print))
    await store.start()
    first, end = 0, 0
    while end < log_bytes:
        results = store.put(list(batch(first)))
        assert {result.status for result in results} == {PutStatus.OK}
        end, first = results[-1].end, first + 1000
        store.publish(end)
        await asyncio.sleep(0)
    await store.stop()
    await world.workers.close()
    return first


@pytest.mark.parametrize(
    ("log_bytes", "sizes", "range_bytes"),
    [
        pytest.param(12 << 20, SMALL | INDEX, 1 << 20, id="12 MB"),
        pytest.param(2 << 30, {}, 64 << 20, id="2 GB", marks=pytest.mark.long),
    ],
)
def test_what_our_store_wrote_comes_out_byte_for_byte(spark, tmp_path, log_bytes, sizes, range_bytes):
    root, made = tmp_path / "store", tmp_path / "made"
    begun = time.perf_counter()
    count = asyncio.run(filled(root, log_bytes, sizes))
    filled_at = time.perf_counter()
    done = rebuild(
        RealFiles(),
        root,
        made,
        RealClock().utc_offset_ms,
        run=partial(over_spark, spark),
        shares=8,
        range_bytes=range_bytes,
    )
    ended = time.perf_counter()
    print(f"\n{count} messages in {filled_at - begun:.1f} s, queues and index made in {ended - filled_at:.1f} s")
    assert not done.damaged
    assert (done.queues.entries, done.queues.records) == (count, count)
    queues = sorted(path.relative_to(root) for path in (root / "consumequeue").rglob("0*") if path.is_file())
    assert queues == sorted(path.relative_to(made) for path in (made / "consumequeue").rglob("0*") if path.is_file())
    assert done.queues.same_files == len(queues) >= 20
    for path in queues:
        assert filecmp.cmp(root / path, made / path, shallow=False), path
    before, after = (sorted((folder / "index").iterdir()) for folder in (root, made))
    assert done.index.same_files == len(before) == len(after)
    for ours, theirs in zip(after, before, strict=True):
        assert filecmp.cmp(ours, theirs, shallow=False), theirs


@pytest.mark.parametrize(
    "name", golden_names(["batch", "innerbatch", "lmq", "sql", "transaction", "v550"], ("innerbatch", "lmq"))
)
def test_what_java_wrote_comes_out_byte_for_byte(spark, golden, tmp_path, name):
    assert name in SCENARIOS
    assert name not in LEFT_OUT
    store = golden(name).store
    run = partial(over_spark, spark)
    rebuild(RealFiles(), store, tmp_path / "made", lambda time_ms: 0, run=run, range_bytes=1 << 20, shares=2)
    made, before = contents(tmp_path / "made"), contents(store)
    queues = {path: data for path, data in before.items() if path.split("/")[0].endswith("consumequeue")}
    assert {path: data for path, data in made.items() if not path.startswith("index/")} == queues
    index = [data for path, data in sorted(before.items()) if path.startswith("index/")]
    assert [data for path, data in sorted(made.items()) if path.startswith("index/")] == index
