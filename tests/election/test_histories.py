"""Whole brokers with elected roles under faults, in a simulated world, judged by the history of their clients.

With two copies needed and strict fencing: no acknowledged message is lost, one broker acknowledges in an epoch, the
order of a queue holds, and no consumer saw what a later master does not have. `history_table` runs the 200 clusters of
the documentation's table.
"""

import pytest

pytest.importorskip("gantrymq_replication")
pytest.importorskip("gantrymq_storage_faults")

from history_table import run

from gantrymq_replication.election.elected_log import ElectedLog
from gantrymq_replication.election.machine import Machine
from gantrymq_replication.gate import ElectedGate

SEEDS = [
    1,
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 4)),
    *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 200)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost(seed):
    assert run(seed).acknowledged > 20


# --- the checker finds deliberate faults ------------------------------------------------------------------------------


def acknowledge_without_the_set(patch):
    def ask(self, log_offset, answer):
        if self._broker.leads:
            self._broker.stored(log_offset)
        answer(None)

    patch.setattr(ElectedGate, "ask", ask)
    patch.setattr(Machine, "may_acknowledge", lambda self, log_offset, now: self.leased(now))


def cut_nothing(patch):
    async def fit(self, master):
        return self.end

    patch.setattr(ElectedLog, "fit", fit)
    patch.setattr(ElectedLog, "unconfirmed", lambda self, master: None)


def ignore_the_lease(patch):
    patch.setattr(Machine, "leased", lambda self, now: self.is_master)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a run that fails closes nothing
@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (acknowledge_without_the_set, "lost"),
        (cut_nothing, "does not fit|epochs of|another log"),
        (ignore_the_lease, "without a lease"),
    ],
)
def test_a_deliberate_fault_is_found(fault, sentence, monkeypatch):
    fault(monkeypatch)
    with pytest.raises(AssertionError, match=sentence):
        for seed in range(16):
            run(seed)
