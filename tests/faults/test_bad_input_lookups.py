"""Lookups without a result, and an unusable index."""

from faulty_broker import start_broker

from gantrymq.remoting.codes import RequestCode

WINDOW = {"maxNum": 32, "beginTimestamp": 0, "endTimestamp": 2**63 - 1}


def test_bi106_a_key_with_the_hash_of_another(broker, row):
    with broker.peer() as peer:
        assert peer.send("T", properties="KEYS\x01Aa\x02").code == 0
        assert peer.ask(RequestCode.QUERY_MESSAGE, {"topic": "T", "key": "Aa", **WINDOW}).code == 0
        answer = peer.ask(RequestCode.QUERY_MESSAGE, {"topic": "T", "key": "BB", **WINDOW})
        row.check(answer.remark, answer.code, topic="T", key="BB", count=1)


def test_bi107_a_place_in_the_log_where_no_message_starts(broker, row):
    with broker.peer() as peer:
        assert peer.send("T").code == 0
        answer = peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": 1})
        end = answer.remark.rpartition(" ")[2]
        assert int(end) > 0
        row.check(answer.remark, answer.code, offset=1, first=0, end=end)


def test_bi108_index_files_of_another_size(tmp_path, broker_with, logged, row):
    store = tmp_path / "store"
    first = start_broker(store, maxHashSlotNum=10, maxIndexNum=20)
    with first.peer() as peer:
        assert peer.send("T", properties="KEYS\x01k\x02").code == 0
    first.close()
    (file,) = (store / "index").iterdir()
    second = broker_with(maxHashSlotNum=20, maxIndexNum=20)
    seen = logged.wait_for(f"index file {file.name}")
    row.check(seen, "starts", name=file.name, size=480, slots=20, entries=20, wanted=520)
    with second.peer() as peer:
        while (answer := peer.ask(RequestCode.QUERY_MESSAGE, {"topic": "T", "key": "k", **WINDOW})).code == 2:
            assert "being caught up" in answer.remark
        assert answer.code == 0
