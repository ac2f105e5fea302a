import json
from pathlib import Path

import attrs
import pytest

from gantrymq.world import DiskUsage
from gantrymq_storage_mmap.retention.rules import (
    HOUR_MS,
    DiskState,
    RetentionSettings,
    forced_bytes,
    is_near,
    plan_deletion,
    refusal_for,
    used_percent,
)

MIB = 1024**2
NOW = 1_700_000_000_000 // (24 * HOUR_MS) * (24 * HOUR_MS) + 12 * HOUR_MS  # noon, UTC
SETTINGS = RetentionSettings(
    reserved_ms=72 * HOUR_MS,
    delete_hours=frozenset({4}),
    batch_max=10,
    max_used_percent=75,
    forced_percent=85,
    warning_percent=90,
    forced=True,
    min_free_bytes=0,
    quota_bytes=0,
    log_file_bytes=MIB,
)
FRESH, OLD = NOW - HOUR_MS, NOW - 73 * HOUR_MS


def disk(percent):
    return DiskUsage(1000 * MIB, (1000 - percent * 10) * MIB, (1000 - percent * 10) * MIB)


def disks(percent=50, *, queues=None, store_bytes=0):
    queue_disk = disk(percent if queues is None else queues)
    return DiskState(Path("/log"), Path("/store"), disk(percent), queue_disk, store_bytes)


def planned(ages, percent=50, *, settings=SETTINGS, now=NOW, zone_ms=0, manual=False, most=10, **more):
    return plan_deletion(settings, most, disks(percent, **more), ages, now, zone_ms, manual=manual).files


def at_hour(hour):
    return NOW + (hour - 12) * HOUR_MS


def test_used_share_leaves_out_what_only_root_may_take():
    assert used_percent(DiskUsage(total=100, free=30, usable=10)) == 87.5
    assert used_percent(DiskUsage(0, 0, 0)) == 0


def test_expired_files_go_in_the_hour_of_delete_when_only():
    ages = [OLD, OLD, FRESH]
    assert [hour for hour in range(24) if planned([at_hour(hour) - 73 * HOUR_MS], now=at_hour(hour))] == [4]
    assert planned(ages) == 0
    assert planned([age - 8 * HOUR_MS for age in ages], now=at_hour(4)) == 2


def test_the_hour_is_local():
    ages = [OLD - 24 * HOUR_MS]
    assert planned(ages, now=at_hour(20), zone_ms=8 * HOUR_MS) == 1
    assert planned(ages, now=at_hour(4), zone_ms=8 * HOUR_MS) == 0
    assert planned(ages, now=at_hour(9), zone_ms=-5 * HOUR_MS) == 1


def test_a_file_expires_when_its_time_is_over_and_not_at_it():
    edge = NOW - 72 * HOUR_MS
    assert planned([edge], manual=True) == 0
    assert planned([edge - 1], manual=True) == 1


def test_nothing_goes_behind_a_file_that_stays():
    assert planned([OLD, FRESH, OLD], manual=True) == 1
    assert planned([FRESH, OLD], manual=True) == 0


def test_an_operator_s_wish_needs_no_hour_but_the_age():
    assert planned([OLD] * 3, manual=True) == 3
    assert planned([FRESH] * 3, manual=True) == 0


def test_a_batch_has_a_limit():
    assert planned([OLD] * 30, manual=True) == 10
    assert planned([OLD] * 30, manual=True, most=25) == 25


@pytest.mark.parametrize(("percent", "files"), [(75, 0), (76, 3)])
def test_a_full_disk_lets_expired_files_go_at_any_hour(percent, files):
    assert planned([OLD] * 3, percent) == files
    assert planned([OLD] * 3, 10, queues=percent) == files
    assert planned([FRESH] * 3, percent) == 0


def test_a_fuller_disk_takes_the_oldest_whatever_their_age_and_no_more_than_needed():
    assert planned([FRESH] * 30, 85) == 0
    assert planned([FRESH] * 300, 86, most=300) == 10  # 1 percent of 1000 MiB in files of 1 MiB
    assert planned([FRESH] * 30, 90) == 10  # a batch
    assert planned([FRESH] * 30, 10, queues=86) == 10
    assert planned([FRESH] * 30, 95, settings=attrs.evolve(SETTINGS, forced=False)) == 0


def test_free_bytes_are_kept_for_the_next_file_too():
    settings = attrs.evolve(SETTINGS, min_free_bytes=500 * MIB)
    assert forced_bytes(settings, disks(49)) == 0  # 510 MiB are free
    assert forced_bytes(settings, disks(50)) == MIB
    assert planned([FRESH] * 3, 50, settings=settings) == 1


def test_a_quota_is_kept_for_the_next_file_too():
    settings = attrs.evolve(SETTINGS, quota_bytes=5 * MIB)
    assert forced_bytes(settings, disks(store_bytes=4 * MIB)) == 0
    assert forced_bytes(settings, disks(store_bytes=4 * MIB + 20)) == 20
    assert planned([FRESH] * 3, settings=settings, store_bytes=6 * MIB) == 2


CAUSES = [
    (
        {},
        disks(91),
        "disk_ratio",
        "the disk of /log is 91.0 percent full, diskSpaceWarningLevelRatio=90 is the limit; free space, keep less with "
        "fileReservedTime, or raise the ratio; writes resume by themselves once there is room",
    ),
    (
        {},
        disks(20, queues=95),
        "queue_disk_ratio",
        "the disk of /store is 95.0 percent full, diskSpaceWarningLevelRatio=90 is the limit; free space, keep less "
        "with fileReservedTime, or raise the ratio; writes resume by themselves once there is room",
    ),
    (
        {"min_free_bytes": 600 * MIB},
        disks(50),
        "free_bytes",
        "the disk of /log has 524288000 bytes free, minFreeDiskBytes=629145600 is the minimum; free space, keep less "
        "with fileReservedTime, or lower minFreeDiskBytes; writes resume by themselves once there is room",
    ),
    (
        {"quota_bytes": 5 * MIB},
        disks(store_bytes=5 * MIB + 1),
        "store_quota",
        "the store /store takes 5242881 bytes, storeQuotaBytes=5242880 is the limit; keep less with fileReservedTime, "
        "or raise storeQuotaBytes; writes resume by themselves once there is room",
    ),
]


@pytest.mark.parametrize(("settings", "seen", "cause", "sentence"), CAUSES, ids=[each[2] for each in CAUSES])
def test_each_cause_of_refusal_has_its_own_name_and_sentence(settings, seen, cause, sentence):
    found = refusal_for(attrs.evolve(SETTINGS, **settings), seen)
    assert (found.cause, found.sentence) == (cause, sentence)
    values = json.loads(found.details()["storeRefusalValues"])
    assert len(values) == 3 and all(str(value) in sentence for value in values.values())


def test_limits_are_still_inside():
    assert refusal_for(SETTINGS, disks(90)) is None
    assert refusal_for(attrs.evolve(SETTINGS, min_free_bytes=500 * MIB), disks(50)) is None
    assert refusal_for(attrs.evolve(SETTINGS, quota_bytes=5 * MIB), disks(store_bytes=5 * MIB)) is None
    assert refusal_for(attrs.evolve(SETTINGS, warning_percent=100), disks(100)) is None


def test_a_limit_that_is_near_is_seen_before_it_is_met():
    assert not is_near(SETTINGS, disks(83))
    assert is_near(SETTINGS, disks(84))
    assert is_near(SETTINGS, disks(10, queues=84))
    free = attrs.evolve(SETTINGS, min_free_bytes=498 * MIB)
    assert not is_near(free, disks(50))
    assert is_near(attrs.evolve(SETTINGS, min_free_bytes=499 * MIB), disks(50))
    quota = attrs.evolve(SETTINGS, quota_bytes=5 * MIB)
    assert not is_near(quota, disks(store_bytes=3 * MIB))
    assert is_near(quota, disks(store_bytes=3 * MIB + 1))
