"""All requests, without a socket."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import attrs
import pytest

from gantrymq.config import Settings
from gantrymq.errors import RequestError, ServerFault
from gantrymq.loose_json import dumps, loads
from gantrymq.remoting.codes import CURRENT_VERSION
from gantrymq.remoting.command import Command
from gantrymq.settings_file import parse_properties
from gantrymq_nameserver.operator_requests import ALWAYS_BLACK_LISTED
from gantrymq_nameserver.service import NameService
from gantrymq_nameserver.settings import name_server_settings

ADDRESS = {"clusterName": "C", "brokerAddr": "127.0.0.1:10911", "brokerName": "broker-a", "brokerId": "0"}
STANDARD = b'"brokerAddrs":{"0":"127.0.0.1:10911"}'
LOOSE = b'"brokerAddrs":{0:"127.0.0.1:10911"}'


def route(desk, topic="T", version=479, **ext):
    return desk.ask(105, {"topic": topic, **ext}, version=version)


def test_an_unknown_code_is_answered_in_rocketmq_s_words(desk):
    answer = desk.ask(9999)
    assert (answer.code, answer.remark) == (3, " request type 9999 not supported")


def test_a_request_for_a_broker_is_told_what_this_port_is(desk):
    answer = desk.ask(11)
    assert answer.code == 3
    assert "PULL_MESSAGE is for a broker, and this port is a name server's" in (answer.remark or "")


@pytest.mark.parametrize("code", [100, 101, 102, 103, 104, 105, 205, 216, 219, 224, 322, 327, 901, 904])
def test_a_missing_field_is_named(desk, code):
    answer = desk.ask(code)
    assert answer.code == 1
    assert "missing field" in (answer.remark or "")


def test_a_bug_is_logged_and_answered(desk, monkeypatch, caplog):
    monkeypatch.setattr("gantrymq_nameserver.topics.all_topics", lambda tables: 1 / 0)
    with caplog.at_level(logging.ERROR):
        answer = desk.ask(206)
    assert (answer.code, answer.remark) == (1, str(ServerFault()))
    assert "ZeroDivisionError" in caplog.text


# --- routes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "ext", "expected"),
    [
        (401, {}, STANDARD),
        (479, {"acceptStandardJsonOnly": "false"}, STANDARD),
        (400, {}, LOOSE),  # 4.9.4-SNAPSHOT
        (317, {}, LOOSE),  # Go
        (333, {}, LOOSE),  # C++
        (121, {}, LOOSE),  # ali-ons
        (317, {"acceptStandardJsonOnly": "true"}, STANDARD),
    ],
)
def test_a_route_is_in_the_requester_s_json_without_blanks(desk, version, ext, expected):
    desk.register()
    answer = route(desk, version=version, **ext)
    assert answer.code == 0
    assert expected in answer.payload
    assert b" " not in answer.payload


def test_no_route_is_code_17_and_names_the_topic(desk):
    answer = route(desk, "nothing")
    assert answer.code == 17
    assert (answer.remark or "").startswith("No topic route info in name server for the topic: nothing\n")


def test_order_config_rides_along_only_when_enabled(desk):
    desk.register()
    desk.ask(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"})
    assert "orderTopicConf" not in loads(route(desk).payload)
    desk.ask(318, body=b"orderMessageEnable=true")
    assert loads(route(desk).payload)["orderTopicConf"] == "broker-a:4"
    assert "orderTopicConf" not in loads(route(desk, "U").payload)


@pytest.mark.parametrize(
    ("ext", "brokers"),
    [
        ({"__ZONE_MODE": "true", "__ZONE_NAME": "Z1"}, 1),
        ({"__ZONE_MODE": "true", "__ZONE_NAME": "z2"}, 0),
        ({"__ZONE_MODE": "true", "__ZONE_NAME": " "}, 1),
        ({"__ZONE_MODE": "true"}, 1),
        ({"__ZONE_MODE": "false", "__ZONE_NAME": "z2"}, 1),
    ],
)
def test_zones(desk, ext, brokers):
    desk.register(__ZONE_NAME="z1")
    answer = route(desk, **ext)
    assert answer.code == 0
    members = loads(answer.payload)
    assert (len(members["brokerDatas"]), len(members["queueDatas"])) == (brokers, brokers)


def test_an_acting_master_is_shown_when_supported(make_desk):
    desk = make_desk(supportActingMaster=True)
    desk.register(enableActingMaster="true")
    desk.register(broker_id=1, enableActingMaster="true")
    desk.ask(104, ADDRESS)
    assert loads(route(desk).payload)["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:10912"}


def test_routes_wait_for_brokers_after_the_start(make_desk):
    desk = make_desk(needWaitForService=True, waitSecondsForService=45)
    desk.register()
    assert (route(desk).code, "not ready" in (route(desk).remark or "")) == (1, True)
    desk.clock.advance(44.9)
    assert route(desk).code == 1
    desk.clock.advance(0.1)
    assert (route(desk).code, route(desk).code) == (0, 0)


def test_at_a_graceful_stop_newer_clients_are_sent_away(desk):
    desk.register()
    desk.service.stopping = True
    assert [route(desk, version=version).code for version in (475, 476)] == [0, 1500]


# --- brokers --------------------------------------------------------------------------------------------------------


def test_a_registration_is_answered_with_the_order_config(desk):
    assert desk.register().body is None
    desk.ask(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"})
    assert desk.register().payload == b'{"table":{"T":"broker-a:4"}}'
    desk.ask(318, body=b"returnOrderTopicConfigToBroker=false")
    assert desk.register().body is None


def test_a_slave_is_told_its_master(desk):
    desk.register(haServerAddr="127.0.0.1:9")
    assert desk.register(broker_id=1).ext == {"masterAddr": "127.0.0.1:10911", "haServerAddr": "127.0.0.1:9"}


def test_a_single_topic_at_first_and_a_wrong_checksum_are_refused(desk):
    assert (desk.register(topics=("T",)).code, desk.register(bodyCrc32="1").code) == (1, 1)


def test_a_broker_unregisters(desk):
    desk.register()
    assert desk.ask(104, ADDRESS).code == 0
    assert route(desk).code == 17
    assert desk.ask(106).payload == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'


def test_too_many_departures_at_once_are_refused(make_desk):
    desk = make_desk(unRegisterBrokerQueueCapacity=1)
    desk.register()
    clock, desk.clock = desk.clock, type(desk.clock)()  # nothing is due while they arrive
    assert [desk.ask(104, ADDRESS).code for _ in range(2)] == [0, 1]
    clock.advance(0)
    assert desk.ask(104, ADDRESS).code == 0


def test_a_registration_behind_a_departure_stays(desk):
    desk.register(connection="old")
    desk.service.membership.connection_closed("old")
    desk.register(connection="new")
    desk.clock.advance(0)
    assert route(desk).code == 0


@pytest.mark.parametrize("asked", [b"", b'{"counter":1,"stateVersion":0,"timestamp":8}'])
def test_another_data_version_is_a_change(desk, asked):
    desk.register()
    answer = desk.ask(322, ADDRESS, asked)
    assert answer.ext == {"changed": "true"}
    assert answer.payload == b'{"counter":1,"stateVersion":0,"timestamp":7}'


def test_the_same_data_version_is_none(desk):
    desk.register()
    answer = desk.ask(322, ADDRESS, b'{"counter":1,"stateVersion":0,"timestamp":7}')
    assert answer.ext == {"changed": "false"}


def test_an_unknown_broker_s_data_version_is_a_change_without_a_body(desk):
    answer = desk.ask(322, ADDRESS, b'{"counter":1,"stateVersion":0,"timestamp":7}')
    assert (answer.code, answer.ext, answer.body) == (0, {"changed": "true"}, None)
    assert desk.service.tables.live == {}


def test_a_bad_data_version_is_refused(desk):
    assert [desk.ask(322, ADDRESS, body).code for body in (b"{", b"1", b'{"counter":"x"}')] == [1, 1, 1]


@pytest.mark.parametrize(("code", "alive"), [(904, True), (322, True), (106, False)])
def test_heartbeats_and_version_queries_keep_a_broker_alive(desk, code, alive):
    desk.register(heartbeatTimeoutMillis="10000")
    desk.clock.advance(10)
    assert desk.ask(code, ADDRESS).code == 0
    desk.clock.advance(0.001)
    desk.service.membership.drop_silent()
    desk.clock.advance(0)
    assert (route(desk).code == 0) is alive


@pytest.mark.parametrize("stepped_s", [-86_400.0, 86_400.0])
def test_a_step_of_the_wall_clock_neither_takes_a_broker_out_nor_keeps_it(desk, stepped_s):
    desk.register(heartbeatTimeoutMillis="10000")
    desk.clock.stepped_s = stepped_s
    desk.service.membership.drop_silent()
    desk.clock.advance(9)
    desk.service.membership.drop_silent()
    desk.clock.advance(0)
    assert route(desk).code == 0
    desk.clock.advance(2)
    desk.service.membership.drop_silent()
    desk.clock.advance(0)
    assert route(desk).code != 0


def test_a_heartbeat_makes_no_entry(desk):
    assert desk.ask(904, ADDRESS).code == 0
    assert desk.service.tables.live == {}


def test_a_closed_connection_takes_along_what_registered_on_it(desk):
    desk.register(connection="one")
    desk.register(brokerName="broker-b", brokerAddr="127.0.0.1:2", connection="one")
    desk.register(brokerName="broker-c", brokerAddr="127.0.0.1:3", connection="two")
    desk.service.membership.connection_closed("one")
    desk.clock.advance(0)
    assert set(desk.service.tables.brokers) == {"broker-c"}


def test_more_brokers_lost_at_once_than_may_wait_all_go(make_desk):
    desk = make_desk(unRegisterBrokerQueueCapacity=1)
    for name in ("x", "y", "z"):
        desk.register(brokerName=name, brokerAddr=f"{name}:1", connection="one")
    desk.service.membership.connection_closed("one")
    desk.clock.advance(0)
    assert desk.service.tables.brokers == {}


def test_notices_are_sent_when_enabled(make_desk):
    for enabled, told in ((True, [2, 1]), (False, [])):
        desk = make_desk(notifyMinBrokerIdChanged=enabled)
        for broker_id in (3, 2):
            desk.register(broker_id=broker_id, enableActingMaster="true")
        desk.register(broker_id=1, enableActingMaster="true")
        desk.ask(104, {**ADDRESS, "brokerId": "2", "brokerAddr": "127.0.0.1:10913"})
        assert [change.minimum_id for change in desk.told] == told


def test_the_member_group(desk):
    desk.register()
    answer = desk.ask(901, {"clusterName": "C", "brokerName": "broker-a"})
    assert answer.payload == (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"C"}}'
    )


# --- topics ---------------------------------------------------------------------------------------------------------


def test_cluster_info_is_always_loose(desk):
    desk.register()
    assert LOOSE in desk.ask(106).payload


@pytest.mark.parametrize(
    ("code", "ext", "body"),
    [
        (206, {}, b'{"topicList":["T","U"]}'),
        (224, {"cluster": "C"}, b'{"topicList":["T","U"]}'),
        (224, {"cluster": "nowhere"}, b'{"topicList":[]}'),
        (304, {}, b'{"brokerAddr":"127.0.0.1:10911","topicList":["C","broker-a"]}'),
        (311, {}, b'{"topicList":[]}'),
        (312, {}, b'{"topicList":[]}'),
        (313, {}, b'{"topicList":[]}'),
    ],
)
def test_topic_lists(desk, code, ext, body):
    desk.register()
    assert desk.ask(code, ext).payload == body


@pytest.mark.parametrize(("key", "codes"), [("enableAllTopicList", (206,)), ("enableTopicList", (224, 311, 312, 313))])
def test_topic_lists_can_be_switched_off(make_desk, key, codes):
    desk = make_desk(**{key: False})
    answers = [desk.ask(code, {"cluster": "C"}) for code in codes]
    assert all(answer.code == 1 and (answer.remark or "").startswith("disable") for answer in answers)
    assert desk.ask(304).code == 0


def test_write_permission(desk):
    desk.register()
    assert desk.ask(205, {"brokerName": "broker-a"}).ext == {"wipeTopicCount": "2"}
    assert loads(route(desk).payload)["queueDatas"][0]["perm"] == 4
    assert desk.ask(327, {"brokerName": "broker-a"}).ext == {"addTopicCount": "2"}
    assert loads(route(desk).payload)["queueDatas"][0]["perm"] == 6


@pytest.mark.parametrize(("cluster", "code"), [(None, 17), ("C", 17), ("D", 0)])
def test_a_topic_is_deleted(desk, cluster, code):
    desk.register()
    assert desk.ask(216, {"topic": "T"} | ({"clusterName": cluster} if cluster else {})).code == 0
    assert route(desk).code == code


def test_a_topic_is_added_by_hand(desk):
    desk.register()
    body = b'{"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":2,"writeQueueNums":"3"}]}'
    assert desk.ask(217, {"topic": "New"}, body).code == 0
    assert loads(route(desk, "New").payload)["queueDatas"][0]["writeQueueNums"] == 3


def test_ali_ons_asks_217_in_its_old_meaning(desk):
    assert desk.ask(217, {"namespace": "PROJECT_CONFIG", "key": "127.0.0.1"}, version=121).code == 0


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"queueDatas":[1]}', b'{"queueDatas":[{}]}', b'{"queueDatas":3}'])
def test_a_route_that_cannot_be_read_is_refused(desk, body):
    assert desk.ask(217, {"topic": "New"}, body).code == 1


# --- operators ------------------------------------------------------------------------------------------------------


def test_key_values(desk):
    key = {"namespace": "N", "key": "k"}
    assert (desk.ask(101, key).code, desk.ask(219, key).code) == (22, 22)
    assert desk.ask(100, {**key, "value": "v"}).code == 0
    assert desk.ask(101, key).ext == {"value": "v"}
    assert desk.ask(219, key).payload == b'{"table":{"k":"v"}}'
    assert desk.ask(102, key).code == 0
    answer = desk.ask(101, key)
    assert (answer.code, answer.remark) == (22, "No config item, Namespace: N Key: k")


def test_settings_are_shown_sorted_as_properties(desk):
    lines = desk.ask(319).payload.decode().splitlines()
    assert lines == sorted(lines)
    assert "orderMessageEnable=false" in lines


def test_settings_change_until_the_server_stops(desk):
    path = Path(desk.settings.text("configStorePath"))
    assert desk.ask(318, body=b"enableTopicList=false\n").code == 0
    assert not desk.settings.flag("enableTopicList")
    assert desk.ask(318, body="# comment\nenableTopicList : true\nproductEnvName=中\\u0041".encode()).code == 0
    assert desk.settings.flag("enableTopicList")
    lines = {line.key: line.value for line in parse_properties(desk.ask(319).payload.decode(), "the answer")}
    assert lines["productEnvName"] == desk.settings.text("productEnvName") == "中A"
    assert desk.ask(318).code == 0
    assert not path.exists()


def test_settings_of_rocketmq_without_effect_are_accepted(desk):
    before = desk.settings.as_dict()
    assert desk.ask(318, body=b"serverWorkerThreads=16\nflushDiskType=ASYNC_FLUSH\n").code == 0
    assert desk.settings.as_dict() == before | {"serverWorkerThreads": 16}


@pytest.mark.parametrize(
    ("body", "code", "sentence"),
    [
        (b"kvConfigPath=/tmp/x", 16, "black list: kvConfigPath"),
        (b"rocketmqHome=/tmp/x", 16, "black list"),
        (b"configBlackList=", 16, "black list"),
        (b"listenPort=0", 16, "black list: listenPort"),
        (b"bindAddress=0.0.0.0", 1, "bindAddress is read at the start only; set it in namesrv.conf and start the name"),
        (
            b"enableTopicLst=true",
            1,
            "not a setting of this name server (did you mean enableTopicList?); gantrymq na",
        ),
        (b"tls.server.mode=disabled", 16, "black list: tls.server.mode"),
        (b"tls.of.nobody=1", 16, "black list: tls.of.nobody"),
        (b"proxyProtocolAddresses=10.0.0.9", 16, "black list: proxyProtocolAddresses"),
        (b"orderMessageEnable=maybe", 1, "neither true nor false"),
        (b"clusterTest=true", 1, "not built"),
        (b"orderMessageEnable=\\u12", 1, "escape"),
        (b"\xff", 1, "UTF-8"),
        *(
            (f"productEnvName=center\\n{key}=/elsewhere".encode(), 1, "productEnvName has a line break")
            for key in sorted(ALWAYS_BLACK_LISTED)
        ),
        (b"productEnvName=center\\r\\nlistenPort=1", 1, "productEnvName has a line break"),
    ],
)
def test_settings_that_may_not_change_change_nothing(make_desk, body, code, sentence):
    desk = make_desk(configBlackList="kvConfigPath;listenPort")
    before = desk.settings.as_dict()
    answer = desk.ask(318, body=b"enableTopicList=false\n" + body)
    assert answer.code == code
    assert sentence in (answer.remark or "")
    assert desk.settings.as_dict() == before


def test_tls_and_proxies_are_not_shown(make_desk):
    shown = make_desk(**{"tls.server.mode": "enforcing", "tls.server.keyPassword": "sesame"}).ask(319).payload
    assert b"tls." not in shown and b"proxyProtocolAddresses" not in shown


def test_two_name_servers_in_one_process_share_nothing(make_desk):
    one, two = make_desk("one"), make_desk("two")
    one.register()
    one.ask(100, {"namespace": "N", "key": "k", "value": "v"})
    one.ask(318, body=b"enableTopicList=false")
    assert (route(one).code, route(two).code) == (0, 17)
    assert two.ask(101, {"namespace": "N", "key": "k"}).code == 22
    assert two.ask(311).code == 0


# --- large registrations --------------------------------------------------------------------------------------------


REGISTER = {**ADDRESS, "haServerAddr": "127.0.0.1:10912"}


class Late:
    """Workers that run on request."""

    def __init__(self):
        self.waiting = []

    async def run(self, work, *args):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((future, work, args))
        return await future

    async def work(self):
        future, work, args = self.waiting.pop(0)
        future.set_result(work(*args))
        for _ in range(5):
            await asyncio.sleep(0)


class Line:
    """A connection."""

    closed = False


@pytest.fixture
def late(world, tmp_path):
    """``late(main)`` runs ``await main(service, workers)`` on a name service whose workers wait."""

    def run(main):
        workers = Late()
        settings = Settings(name_server_settings(tmp_path), {})
        service = NameService(attrs.evolve(world, workers=workers), settings, lambda change: None)
        asyncio.run(main(service, workers))

    return run


def registration(topics, counter=1):
    table = {f"T{number}": {"topicName": f"T{number}", "readQueueNums": counter} for number in range(topics)}
    body = {"topicConfigSerializeWrapper": {"dataVersion": {"counter": counter}, "topicConfigTable": table}}
    return Command(103, ext=REGISTER, body=dumps(body), opaque=5, version=CURRENT_VERSION)


def test_a_large_registration_is_read_by_a_worker_and_the_last_word_counts(late):
    async def main(service, workers):
        line = Line()
        first = asyncio.ensure_future(service.answer(registration(3000), line))
        second = asyncio.ensure_future(service.answer(registration(2, counter=2), line))  # small, but not before it
        gone = asyncio.ensure_future(service.answer(Command(104, ext=ADDRESS, opaque=6, version=CURRENT_VERSION), line))
        await asyncio.sleep(0)
        assert len(workers.waiting) == 1
        assert not service.tables.queues
        await workers.work()
        assert first.result().code == 0
        assert len(service.tables.queues) == 3000
        assert len(workers.waiting) == 1
        assert not gone.done()
        await workers.work()
        assert second.result().code == 0
        assert service.tables.queues["T0"]["broker-a"].read_queues == 2
        assert (await gone).code == 0
        assert not isinstance(service.answer(registration(2, counter=3), line), asyncio.Future)

    late(main)


def test_a_broker_that_left_while_its_registration_was_read_is_not_registered(late):
    async def main(service, workers):
        line = Line()
        answer = asyncio.ensure_future(service.answer(registration(3000), line))
        await asyncio.sleep(0)
        line.closed = True
        await workers.work()
        assert (answer.result().code, "closed its connection" in answer.result().remark) == (1, True)
        assert not service.tables.brokers

    late(main)


def test_a_large_unreadable_registration_is_refused_and_delays_no_other_request(late):
    async def main(service, workers):
        broken = Command(103, ext=REGISTER, body=b"{" * 100_000, opaque=5, version=CURRENT_VERSION)
        answers = [asyncio.ensure_future(service.answer(each, Line())) for each in (broken, registration(3000))]
        await asyncio.sleep(0)
        future, work, args = workers.waiting.pop(0)
        try:
            work(*args)
        except RequestError as error:
            future.set_exception(error)
        assert (await answers[0]).code == 1
        await asyncio.sleep(0)
        await workers.work()
        assert answers[1].result().code == 0

    late(main)
