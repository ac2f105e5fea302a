import pytest

from gantrymq.client.routing.routes import parse_clusters, parse_route
from gantrymq.errors import FormatError
from gantrymq.model.queue import MessageQueue


def route(order: str = "", perm_b: int = 6, addresses_b: str = '{0:"b:1"}') -> bytes:
    broker_b = f'{{"brokerAddrs":{addresses_b},"brokerName":"b","cluster":"C"}}'
    broker_a = '{"brokerAddrs":{1:"a:2","0":"a:1"},"brokerName":"a","cluster":"C"}'
    queues_b = f'{{"brokerName":"b","perm":{perm_b},"readQueueNums":3,"writeQueueNums":1}}'
    queues_a = '{"brokerName":"a","perm":6,"readQueueNums":1,"writeQueueNums":2}'
    brokers, queues = f"[{broker_b},{broker_a}]", f"[{queues_b},{queues_a}]"
    return f'{{"orderTopicConf":"{order}","brokerDatas":{brokers},"queueDatas":{queues}}}'.encode()


def ids(queues: tuple[MessageQueue, ...]) -> list[str]:
    return [f"{queue.broker_name}{queue.queue_id}" for queue in queues]


@pytest.mark.parametrize("name", ["route", "route 4.9.7"])
def test_recorded_route_is_read(golden, name):
    found = parse_route(golden(name).payload)
    assert found.broker("broker-a").master == "127.0.0.2:20911"
    assert len(found.publish_queues("T")) == found.queues[0].write_queues > 0


def test_quoted_and_unquoted_broker_ids_are_the_same():
    found = parse_route(route())
    assert dict(found.broker("a").addresses) == {0: "a:1", 1: "a:2"}
    assert dict(found.broker("b").addresses) == {0: "b:1"}


def test_queues_are_sorted_by_broker_name():
    found = parse_route(route())
    assert ids(found.publish_queues("T")) == ["a0", "a1", "b0"]
    assert ids(found.readable_queues("T")) == ["a0", "b0", "b1", "b2"]


def test_permission_decides_who_is_written_and_read():
    assert ids(parse_route(route(perm_b=4)).publish_queues("T")) == ["a0", "a1"]
    assert ids(parse_route(route(perm_b=2)).readable_queues("T")) == ["a0"]


def test_broker_without_master_is_read_but_not_written():
    found = parse_route(route(addresses_b='{1:"b:2"}'))
    assert ids(found.publish_queues("T")) == ["a0", "a1"]
    assert ids(found.readable_queues("T")) == ["a0", "b0", "b1", "b2"]


def test_order_configuration_says_all_publish_queues():
    assert ids(parse_route(route(order="b:2;a:1;odd;:3;c:x")).publish_queues("T")) == ["b0", "b1", "a0"]


def test_capped_takes_the_smaller_of_default_and_read_queues():
    found = parse_route(route()).capped(2)
    assert [(q.read_queues, q.write_queues) for q in found.queues] == [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("asked", "only", "expected"), [(0, False, "a:1"), (1, False, "a:2"), (2, False, "a:1"), (2, True, None)]
)
def test_readable_address_falls_back(asked, only, expected):
    assert parse_route(route()).broker("a").readable(asked, only_this=only) == expected


def test_slave_stands_in_for_the_id_before_it():
    found = parse_route(route(addresses_b='{2:"b:3",5:"b:6"}')).broker("b")
    assert (found.master, found.readable(1), found.readable(0)) == (None, "b:3", "b:3")


def test_static_topic_is_marked():
    assert parse_route(b'{"topicQueueMappingByBroker":{"a":{"bname":"a"}}}').static
    assert not parse_route(b'{"topicQueueMappingByBroker":{}}').static


def test_route_written_as_strict_json_is_read_back():
    import orjson

    found = parse_route(route(order="a:1"))
    assert parse_route(orjson.dumps(found.to_json())) == found


def test_recorded_clusters_are_read(golden):
    found = parse_clusters(golden("clusters").payload)
    assert dict(found.clusters) == {"DefaultCluster": ("broker-a",)}
    assert found.masters("DefaultCluster") == ("127.0.0.2:20911",)
    assert found.masters("elsewhere") == ()


@pytest.mark.parametrize(
    "body",
    [b"[]", b"", b'{"queueDatas":[{"perm":6}]}', b'{"brokerDatas":[{"brokerName":"a","brokerAddrs":{"x":"y"}}]}'],
)
def test_odd_route_is_refused(body):
    with pytest.raises(FormatError):
        parse_route(body)
