"""Progress of many topics and groups: made in slices, with the bytes of one piece."""

from __future__ import annotations

import pytest
from broker_desk import ADDRESS, body_of
from test_kept_tables import answered_in_slices
from test_sliced_answers import GROUPS, QUEUES, TOPICS, Pauses, answer_made_in_slices, deleted_names_are_left_out, fill

from gantrymq.client import Client
from gantrymq.errors import ClientError
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.responses import MAX_ITEMS

REQUESTS = {  # code to fields, and the smallest number of items
    208: ({"consumerGroup": "reader"}, TOPICS * QUEUES),
    314: ({"srcGroup": "reader", "destGroup": "copy", "topic": "", "offline": "true"}, TOPICS),
    317: ({"isOrder": "false"}, TOPICS * QUEUES),
}


@pytest.mark.parametrize("code", REQUESTS)
def test_progress_has_the_bytes_of_one_piece_and_is_made_in_slices(broker, monkeypatch, code):
    broker(lambda desk: answer_made_in_slices(desk, monkeypatch, code, *REQUESTS[code], has_body=code != 314))


def test_what_the_progress_of_all_contains(broker):
    async def main(desk):
        await fill(desk)
        tables = desk.tables
        progress = body_of(await desk.ask(208, {"consumerGroup": "reader"}))["offsetTable"]
        assert len(progress) == TOPICS * QUEUES
        by_group = {}
        for each in body_of(await desk.ask(317, {"isOrder": "false"}))["consumeStatsList"]:
            by_group |= each
        assert list(by_group) == list(tables.groups.view)
        rows = [(group, key) for group, found in by_group.items() for each in found for key in each["offsetTable"]]
        assert len(rows) == len(set(rows)) == 2 * TOPICS * QUEUES + (GROUPS - 1) * QUEUES
        assert (await desk.ask(314, {"srcGroup": "reader", "destGroup": "copy", "topic": ""})).code == 0
        assert tables.offsets.topics_of("copy") == tables.offsets.topics_of("reader")

    broker(main)


@pytest.mark.parametrize("code", [208, 317])
def test_names_deleted_meanwhile_are_left_out_and_new_ones_too(broker, monkeypatch, code):
    broker(lambda desk: deleted_names_are_left_out(desk, monkeypatch, code, REQUESTS[code][0]))


@pytest.mark.parametrize("code", [208, 317])
def test_nothing_is_read_for_a_client_that_has_left(broker, monkeypatch, code):
    fields, items = REQUESTS[code]

    async def main(desk):
        await fill(desk)
        reads, bounds, peer = [], desk.server.store.bounds, desk.peer()
        pauses = Pauses(desk, monkeypatch)

        def counted(queue):
            reads.append(queue)
            return bounds(queue)

        async def leave():
            await peer.client.close()
            await desk.clock.sleep(1)

        monkeypatch.setattr(desk.server.store, "bounds", counted)
        pauses.at[pauses.count + (TOPICS // 16 if code == 208 else 0) + 3] = leave
        with pytest.raises(ClientError):
            await peer.ask(code, fields)
        await desk.clock.sleep(2)
        assert not pauses.at
        assert 0 < len(reads) <= 4 * MAX_ITEMS < items

    broker(main)


@pytest.mark.parametrize("code", [208, 222, 303, 308])
def test_an_answer_about_many_queues_is_made_in_slices(broker, monkeypatch, code):
    broker(lambda desk: answered_in_slices(desk, monkeypatch, code))


@pytest.mark.slow
def test_our_client_reads_the_answers_of_a_large_broker(broker, monkeypatch):
    topics, queues, groups = 5000, 8, 2000

    async def main(desk):
        await fill(desk, topics, queues, groups)
        async with Client("10.0.0.9:9876", world=desk.world) as client, client.admin as admin:
            pauses = Pauses(desk, monkeypatch)
            assert len(await admin.topic_configs(ADDRESS)) >= topics
            assert len(await admin.groups(ADDRESS)) >= groups
            assert len(await admin.group_progress(ADDRESS, "reader")) == topics * queues
            found = await admin.broker_progress(ADDRESS)
            assert sum(map(len, found.values())) == 2 * topics * queues + (groups - 1) * queues
            offsets = await admin.request_json(ADDRESS, RequestCode.GET_ALL_CONSUMER_OFFSET, what="offsets")
            assert offsets["offsetTable"] == desk.tables.offsets.table
            assert len(await admin.groups_of_topic(ADDRESS, "T000")) == groups + 2  # and "reader", "online"
            assert len(await admin.topics_of_group(ADDRESS, "reader")) == topics
            assert pauses.count > 4 * topics * queues // MAX_ITEMS
            assert pauses.longest < 2 * MAX_ITEMS

    broker(main)
