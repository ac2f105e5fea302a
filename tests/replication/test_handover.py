"""What a returning master takes over, what an acting master sends, and for how many copies such a group waits."""

import json

import pytest
from ha_pairs import simulate_pair

from gantrymq.config import Settings
from gantrymq.errors import ConfigError, FormatError
from gantrymq.loose_json import loads
from gantrymq.model import properties as props
from gantrymq_replication.acting.escape_bridge import sent_properties
from gantrymq_replication.acting.group import ExchangeHaInfo
from gantrymq_replication.acting.takeover import higher_delays, higher_offsets, timer_handover
from gantrymq_replication.replicas import Replica, Replicas
from gantrymq_replication.settings import SCHEMA, HaSettings

SYNC = {"brokerRole": "SYNC_MASTER"}
ACTING = {**SYNC, "enableSlaveActingMaster": True}


def replicas(alive, **settings):
    """A master of *alive* brokers whose log ends at 1000, with a slave that has everything and one that has 400."""
    found = Replicas(HaSettings.of(Settings(SCHEMA, {"haMaxGapNotInSync": 500, **settings})), lambda: alive)
    for acked in (1000, 400):
        found.add(Replica(f"10.0.0.{acked}:1", acked, 0.0), 1000)
    return found


def test_the_higher_offset_of_each_queue_is_right():
    own = json.dumps({"dataVersion": {"counter": 9}, "offsetTable": {"T@g": {"0": 10, "1": 5}, "T@h": {"0": 1}}})
    theirs = b'{"dataVersion":{"counter":1},"offsetTable":{"T@g":{0:7,1:8,2:3},"T@i":{0:4}}}'
    found = loads(higher_offsets(own, theirs))
    assert found["dataVersion"] == {"counter": 9}
    as_text = {
        key: {str(each): offset for each, offset in queues.items()} for key, queues in found["offsetTable"].items()
    }
    assert as_text == {"T@g": {"0": 10, "1": 8, "2": 3}, "T@h": {"0": 1}, "T@i": {"0": 4}}


@pytest.mark.parametrize("own", ["", '{"offsetTable":{2:4,3:9}}'])
def test_the_higher_offset_of_each_delay_level_is_right(own):
    found = loads(higher_delays(own, b'{"dataVersion":{},"offsetTable":{1:3,2:7,3:8}}'))["offsetTable"]
    expected = {"1": 3, "2": 7, "3": 9 if own else 8}
    assert {str(level): offset for level, offset in found.items()} == expected


def test_timers_that_were_delivered_are_added_once():
    checkpoint = b"".join(each.to_bytes(8, "big", signed=True) for each in (5000, 1, 12, 12, 0, 0, 3))
    once = timer_handover("", checkpoint)
    assert loads(once) == {"delivered": [[5000, 12]]}
    assert timer_handover(once, checkpoint) == once
    assert timer_handover(once, bytes(56)) == once  # a slave without timers
    with pytest.raises(FormatError, match="has 8 bytes"):
        timer_handover(once, bytes(8))


@pytest.mark.parametrize("theirs", [b"", b"[]", b'{"offsetTable":[1]}', b'{"offsetTable":{"T@g":{"x":1}}}', b"\xff"])
def test_answers_that_make_no_sense_are_refused(theirs):
    with pytest.raises(FormatError):
        higher_offsets("{}", theirs)


def test_request_906_has_the_fields_of_java():
    ext = {"masterAddress": "127.0.0.2:20911", "masterFlushOffset": "4789", "masterHaAddress": "127.0.0.1:32912"}
    assert ExchangeHaInfo.from_ext(ext).to_ext() == ext
    assert ExchangeHaInfo.from_ext(None).to_ext() in ({}, None)


def test_a_message_that_waited_is_sent_without_its_delay():
    own = {"UNIQ_KEY": "A", "DELAY": "4", "WAIT": "true", "REAL_TOPIC": "T", "REAL_QID": "1"}
    sent = props.decode(sent_properties(own, waited=True))
    assert sent == {"UNIQ_KEY": "A", "WAIT": "false", "REAL_TOPIC": "T", "REAL_QID": "1"}
    assert props.decode(sent_properties(own, waited=False))["DELAY"] == "4"
    timed = {"TIMER_OUT_MS": "5", "TIMER_DELIVER_MS": "6"}  # TIMER_OUT_MS tells brokers that it waited
    assert props.decode(sent_properties(timed, waited=True)) == {**timed, "WAIT": "false"}


@pytest.mark.parametrize(
    ("alive", "settings", "needed", "shortage"),
    [
        (2, {"inSyncReplicas": 2}, 2, False),
        (1, {"inSyncReplicas": 2}, 2, True),
        (3, {"inSyncReplicas": 3}, 3, True),  # one slave is too far behind
        (1, {"inSyncReplicas": 2, "enableAutoInSyncReplicas": True}, 1, False),
        (3, {"inSyncReplicas": 3, "enableAutoInSyncReplicas": True}, 2, False),
        (1, {"inSyncReplicas": 3, "enableAutoInSyncReplicas": True, "minInSyncReplicas": 2}, 2, True),
    ],
)
def test_a_group_with_acting_masters_waits_for_those_that_are_there(alive, settings, needed, shortage):
    found = replicas(alive, **ACTING, **settings)
    assert found.needed(1000) == needed
    assert found.shortage(1000, 0.0).startswith("in-sync replicas not enough") is shortage


def test_a_group_with_acting_masters_needs_name_servers():
    async def main(pair):
        with pytest.raises(ConfigError, match="enableSlaveActingMaster=true: .* set namesrvAddr"):
            await pair.start("alone", namesrv=" ", enableSlaveActingMaster=True)

    simulate_pair(main)


def test_other_groups_wait_for_what_their_settings_say():
    assert replicas(1, **SYNC, inSyncReplicas=2, enableAutoInSyncReplicas=True).needed(1000) == 2
    assert not replicas(1, **SYNC, inSyncReplicas=2).shortage(1000, 0.0)
