"""Unusable saved filters of groups: the broker serves without their bits."""

import json

import pytest

pytest.importorskip("gantrymq_filter_sql92")

from faulty_broker import FAST

from gantrymq.errors import StoreError
from gantrymq.loose_json import dumps

PLUGINS = FAST["plugins"] + ",filter_sql92"


@pytest.fixture
def config(tmp_path):
    folder = tmp_path / "store" / "config"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def said(caplog):
    """The only log line of the bit map with this prefix."""

    def find(start):
        (found,) = [each.getMessage() for each in caplog.records if each.getMessage().startswith(str(start))]
        return found

    return find


def filters(bit_count, *positions):
    members = {
        "bloomFilterData": {"bitNum": bit_count, "bitPos": list(positions)},
        "bornTime": 1,
        "clientVersion": 1,
        "consumerGroup": "G",
        "deadTime": 0,
        "expression": "price > 1",
        "expressionType": "SQL92",
        "topic": "T",
    }
    return json.dumps({"filterDataByTopic": {"T": {"groupFilterData": {"G": members}, "topic": "T"}}})


def test_bi225_a_file_and_its_backup_cut_short(broker_with, config, said, row):
    for name in ("consumerFilter.json", "consumerFilter.json.bak"):
        (config / name).write_text('{"filterData')
    broker_with(plugins=PLUGINS)
    file = config / "consumerFilter.json"
    row.check(said(f"{file}: "), "starts", file=file, why='JSON at 12: expected a closing ", got the end')
    assert (config / "consumerFilter.json.broken").read_text() == '{"filterData'


def test_bi226_a_position_outside_the_map(broker_with, config, said, row):
    file = config / "consumerFilter.json"
    file.write_text(filters(112, 65, 28, 112))
    broker_with(plugins=PLUGINS)
    row.check(said(file), "starts", file=file, why="ValueError('positions [65, 28, 112] of 112 bits')")
    assert (config / "consumerFilter.json.broken").read_text() == filters(112, 65, 28, 112)


def test_bi227_maps_of_another_length(broker_with, config, said, row):
    file = config / "consumerFilter.json"
    file.write_text(filters(216, 65, 28, 103))
    broker_with(plugins=PLUGINS)
    row.check(said(file), "starts", file=file)


def test_bi228_a_heartbeat_with_a_wrong_expression(broker_with, said, row):
    running = broker_with(plugins=PLUGINS, notifyConsumerIdsChangedEnable=False)
    wrong = {"topic": "T", "subString": "price >", "expressionType": "SQL92", "subVersion": 1}
    consumer = {"groupName": "G", "subscriptionDataSet": [wrong]}
    with running.peer() as peer:
        peer.create_topic("T")
        answer = peer.ask(34, {}, dumps({"clientID": "c", "consumerDataSet": [consumer]}))
        checked = peer.ask(46, {}, dumps({"clientId": "c", "group": "G", "subscriptionData": wrong}))
        pulled = peer.pull("T", consumerGroup="G", sysFlag=0)
    assert (checked.code, pulled.code) == (23, 23)
    assert checked.remark == pulled.remark
    row.check(said("a group subscribes"), answer.code, why=checked.remark)


def test_bi229_a_folder_in_the_file_s_place(broker_with, config, row):
    file = config / "consumerFilter.json"
    file.mkdir()
    with pytest.raises(StoreError) as refused:
        broker_with(plugins=PLUGINS)
    row.check(str(refused.value), "exit 1", file=file, why="Is a directory")
    file.rmdir()
    assert broker_with(plugins=PLUGINS).serves()
