"""Number of usable processors under the quotas of control groups."""

import os

import pytest

from gantrymq.world.real import real_world
from gantrymq.world.real.workers import usable_processors
from gantrymq_testing.simulated import simulate

ALL = float(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else float(os.cpu_count() or 1)


@pytest.fixture
def system(tmp_path):
    """Makes a root folder with the control groups of this process and files in their folders."""

    def make(own, **files):
        proc = tmp_path / "proc" / "self"
        proc.mkdir(parents=True)
        (proc / "cgroup").write_text(own)
        for name, text in files.items():
            path = tmp_path / "sys" / "fs" / "cgroup" / name.replace("__", "/").replace("cpu_max", "cpu.max")
            path = path.with_name(path.name.replace("cpu_cfs", "cpu.cfs"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return usable_processors(tmp_path)

    return make


def test_without_groups_all_that_the_process_may_run_on(tmp_path):
    assert usable_processors(tmp_path) == ALL


@pytest.mark.parametrize("text", ["max 100000\n", "", "rubbish\n", "1 0\n"])
def test_what_is_no_quota_takes_nothing_away(system, text):
    assert system("0::/\n", cpu_max=text) == ALL


@pytest.mark.parametrize("own", ["", "\n", "rubbish\n", "1:\n", "1:cpuset:/a\n"])
def test_what_names_no_group_with_a_quota_takes_nothing_away(system, own):
    assert system(own, cpu__a__cpu_cfs_quota_us="1\n", cpu__a__cpu_cfs_period_us="2\n") == ALL


def test_a_quota_may_be_a_fraction(system):
    assert system("0::/\n", cpu_max="50000 100000\n") == 0.5


def test_the_least_of_all_groups_around_counts(system):
    assert system("0::/a/b\n", a__cpu_max="25000 100000\n", a__b__cpu_max="75000 100000\n") == 0.25


@pytest.mark.parametrize("controllers", ["cpu", "cpu,cpuacct"])
def test_groups_of_version_1_count_too(system, controllers):
    quota = {
        f"{controllers}__a__cpu_cfs_quota_us": "25000\n",
        f"{controllers}__a__cpu_cfs_period_us": "100000\n",
        f"{controllers}__cpu_cfs_quota_us": "-1\n",
        f"{controllers}__cpu_cfs_period_us": "100000\n",
    }
    assert system(f"3:{controllers}:/a\n2:cpuacct:/b\n0::/\n", **quota) == 0.25


def test_the_real_world_says_so_and_the_simulated_one_has_one():
    assert 0 < real_world().processors() <= ALL

    async def main(world):
        return world.processors()

    assert simulate(1, main) == 1.0
