import pytest

from gantrymq.formats.record import encode_record, read_record
from gantrymq.interfaces import PutStatus
from gantrymq.model.queue import Queue
from gantrymq_store_files.blank import encode_blank
from gantrymq_testing.store_contract_bench import START_MS, bodies, message

OK, ILLEGAL = PutStatus.OK, PutStatus.MESSAGE_ILLEGAL
BARE = 94  # bytes of a record of topic "T" without body and properties: 91, and 3 are not there; see test below


def test_the_record_has_the_bytes_the_format_says(rig):
    async def case(bench):
        (result,) = await bench.add(message("TopicTest", 1, b"hello", "TagA", born_timestamp=1700000000000))
        expected = encode_record(
            topic="TopicTest",
            queue_id=1,
            body=b"hello",
            properties=b"TAGS\x01TagA\x02",
            store_timestamp=START_MS,
            born_timestamp=1700000000000,
        )
        assert rig.log().read_bytes()[: result.size] == expected
        assert rig.log().stat().st_size == 8192

    rig.run(case)


def body_for(record_bytes):
    return b"b" * (record_bytes - 92)  # topic "T", no properties


def test_a_record_that_leaves_eight_bytes_fits_and_one_more_byte_rolls(rig):
    async def case(bench):
        first, second = await bench.add(message(body=body_for(4000)), message(body=body_for(8192 - 4000 - 8)))
        assert (first.size, second.log_offset) == (4000, 4000)
        (third,) = await bench.add(message(body=b"next"))
        assert third.log_offset == 8192
        assert rig.log().read_bytes()[-8:] == encode_blank(8)
        (fourth,) = await bench.add(message(body=body_for(8192 - third.size - 7)))
        assert fourth.log_offset == 16384
        assert rig.log(8192).read_bytes()[third.size : third.size + 8] == encode_blank(8192 - third.size)
        assert bodies(await bench.read_all(Queue("T", 0)))[2] == b"next"

    rig.run(case)


def test_a_joined_batch_rolls_as_a_whole(rig):
    async def case(bench):
        await bench.add(message(body=body_for(6000)))
        batch = [message(body=body_for(1000), same_file_as_previous=n > 0) for n in range(3)]
        results = await bench.add(*batch)
        assert [result.log_offset for result in results] == [8192, 9192, 10192]
        loose = await bench.add(*[message(body=body_for(2000)) for n in range(3)])
        assert [result.log_offset for result in loose] == [11192, 13192, 16384]

    rig.run(case)


def test_a_batch_larger_than_a_file_is_refused_as_a_whole(rig):
    async def case(bench):
        results = bench.store.put(
            [
                message(body=b"a"),
                *[message(body=body_for(3000), same_file_as_previous=n > 0) for n in range(3)],
                message(body=b"z"),
            ]
        )
        assert [result.status for result in results] == [OK, ILLEGAL, ILLEGAL, ILLEGAL, OK]
        assert "mappedFileSizeCommitLog=8192" in results[1].problem
        assert results[4].queue_offset == 1

    rig.run(case)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (message("a/b"), "folder's name"),
        (message(".."), "folder's name"),
        (message(""), "0 bytes"),
        (message("T" * 128), "128 bytes"),
        (message("%RETRY%" + "T" * 249), "256 bytes"),
        (message(queue_id=-1), "queue id -1"),
        (message(queue_id=1 << 31), "queue id"),
        (message(flag=1 << 31), "does not fit its field"),
        (message(born_timestamp=1 << 63), "does not fit its field"),
        (message(properties=b"KEYS\x01a\x00"), "zero bytes"),
        (message(properties=b"KEYS\x01\xff\x02"), "not UTF-8"),
        (message(sys_flag=0x80), "queue.type=BatchCQ"),
    ],
)
def test_a_message_that_recovery_or_a_reader_would_stumble_over_is_refused(rig, sent, says):
    async def case(bench):
        refused, taken = bench.store.put([sent, message()])
        assert refused.status is ILLEGAL
        assert says in refused.problem
        assert (taken.status, taken.log_offset, taken.queue_offset) == (OK, 0, 0)
        assert list(bench.store.publish(taken.end))

    rig.run(case)


def test_a_zero_inside_a_property_value_is_legal(rig):
    async def case(bench):
        await bench.add(message(properties=b"KEYS\x01a\x00b\x02"))

    rig.kill(case)

    async def after(bench):
        assert bench.report.log_end > 0
        assert bench.report.cut_bytes == 0

    rig.run(after)


def test_ipv6_bits_without_ipv6_hosts_are_cleared(rig):
    async def case(bench):
        (result,) = await bench.add(message(sys_flag=0x31))
        assert read_record(rig.log().read_bytes()).sys_flag == 1
        assert result.size == 92 + 4

    rig.run(case)


def test_a_topic_with_batch_queues_takes_no_messages(rig):
    (rig.root / "batchconsumequeue" / "Inner" / "0").mkdir(parents=True)

    async def case(bench):
        (result,) = bench.store.put([message("Inner")])
        assert (result.status, "BatchCQ" in result.problem) == (ILLEGAL, True)

    rig.run(case)


def test_a_stopped_store_refuses(rig):
    async def case(bench):
        await bench.store.stop()
        (result,) = bench.store.put([message()])
        assert (result.status, result.problem) == (PutStatus.SERVICE_NOT_AVAILABLE, "the store is not running")

    rig.run(case)
