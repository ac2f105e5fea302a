"""Disk usage figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.broker.wire.disk_figures import disk_figures, readable
from gantrymq.world.files import DiskUsage


class Disk:
    """Files that only have disk usage."""

    def __init__(self, use, *folders):
        self.use = use
        self.folders = folders

    def stat(self, path):
        return object() if path.as_posix() in self.folders else None

    def disk_use(self, path):
        return self.use


def test_used_is_what_others_took_of_what_this_process_may_have():
    found = disk_figures(Disk(DiskUsage(1000, 400, 200), "/store/commitlog"), Path("/store"))
    assert found == {
        "commitLogDirCapacity": "Total : 1000 B, Free : 200 B.",
        "commitLogDiskRatio": "0.75",
        f"commitLogDiskRatio_{Path('/store/commitlog')}": "0.75",
        "consumeQueueDiskRatio": "0.75",
    }


def test_a_store_without_a_log_on_disk_has_none():
    assert disk_figures(Disk(DiskUsage(1000, 400, 200)), Path("/store")) == {}


def test_a_disk_that_says_nothing_is_not_divided_by():
    found = disk_figures(Disk(DiskUsage(0, 0, 0), "/store/commitlog"), Path("/store"))
    assert found["commitLogDiskRatio"] == "0.0"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (270_582_939_648, "252.0 GiB"), (2**70, "1024.0 EiB")],
)
def test_bytes_as_java_prints_them(count, text):
    assert readable(count) == text
