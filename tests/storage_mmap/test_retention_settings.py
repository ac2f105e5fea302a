import pytest

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.settings_load import BROKER_DEFAULTS, runtime_changes
from gantrymq_storage_mmap.retention.settings import RETENTION, hours_of, read_retention
from gantrymq_storage_mmap.settings import SCHEMA

OWN = {"minFreeDiskBytes", "storeQuotaBytes"}


def test_defaults_are_rocketmq_s():
    for setting in RETENTION:
        if setting.key not in OWN:
            default = str(setting.default).lower() if setting.kind == "flag" else str(setting.default)
            assert BROKER_DEFAULTS[setting.key] == default, setting.key
    assert {setting.key for setting in RETENTION} >= OWN
    assert all(setting.default == 0 and "GantryMQ's own" in setting.help for setting in RETENTION if setting.key in OWN)


def test_every_key_may_be_changed_at_runtime():
    assert all(setting.runtime for setting in RETENTION)


@pytest.mark.parametrize(("text", "hours"), [("04", {4}), ("4", {4}), ("00;12; 23 ", {0, 12, 23})])
def test_hours_are_read_as_rocketmq_writes_them(text, hours):
    assert hours_of(text) == hours


@pytest.mark.parametrize("text", ["", "24", "4,5", "04;", "-1", "four", "\u0664"])
def test_what_is_no_hour_is_refused(text):
    with pytest.raises(ConfigError, match="is not an hour from 00 to 23"):
        Settings(SCHEMA, {"deleteWhen": text})


def test_rules_follow_the_settings():
    settings = Settings(SCHEMA, {"fileReservedTime": 48, "storeQuotaBytes": 1 << 40})
    retention = read_retention(settings)
    assert (retention.reserved_ms, retention.quota_bytes, retention.delete_hours) == (48 * 3_600_000, 1 << 40, {4})


def test_a_quota_that_leaves_no_room_to_work_is_refused_at_the_start(rig):
    with pytest.raises(ConfigError, match="storeQuotaBytes=24575 is less than 3 log files take; set it to 24576"):
        rig.make(storeQuotaBytes=24_575)
    rig.make(storeQuotaBytes=24_576)


def test_no_retention_is_taken_at_the_start_and_not_from_a_running_broker():
    settings = Settings(SCHEMA, {"fileReservedTime": 0})
    assert runtime_changes(settings, {"fileReservedTime": "1"}, "25", "broker", "broker.conf")
    with pytest.raises(
        ConfigError, match="fileReservedTime=0 is below 1, the smallest value that a running broker takes"
    ):
        runtime_changes(settings, {"fileReservedTime": "0"}, "25", "broker", "broker.conf")
