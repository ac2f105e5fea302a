"""Brokers with elected roles under faults, each on a host of its own; then their master is killed.

With fencing=strict and minInSyncReplicas=2 no acknowledged message is lost, one broker alone acknowledges in an epoch,
queues are in order, and no consumer saw what a later master does not have. Clients note their history outside of the
brokers.

    GANTRYMQ_ELECTION_RUN   the number of the only run; 0 to 29 with etcd, 30 to 39 with RocketMQ's controllers
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_replication")
pytest.importorskip("aetcd")

from chaos_rig.elected_set import LEASE_S, SOME, ElectedSet, Engine, Member

ONLY = os.environ.get("GANTRYMQ_ELECTION_RUN")
SHORT = (0,)  # also without -m long
LONGER_S = LEASE_S + 2.0  # than the engine waits for a master that is silent
SLOW_STEPS, SLOW_S = 20, (0.02, 0.4)

Result = dict[str, float]


class Run(ElectedSet):
    """A run: its faults and what they cost."""

    def __init__(self, stack: ExitStack, folder: Path, number: int, engine: Engine, brokers: int) -> None:
        super().__init__(stack, folder, number, engine, brokers)
        self.costs: dict[str, Result] = {}  # by fault

    def strike(self) -> None:
        """Note that the fault is now."""
        self._struck = time.monotonic()

    def over(self, fault: str) -> None:
        """Wait until all is well again, and note what the fault cost."""
        self.goes_on()
        self.costs[fault] = {
            "without a master": self.watch.without_master_s(self._struck),
            "not acknowledged": self.not_acknowledged_s(self._struck),
        }

    def last_switch(self) -> None:
        """Kill the master, so that another one has what it must have."""
        master = self.master()
        master.process.kill()
        self.strike()
        self.lasts(1, 3)
        master.start()
        self.over("the last kill of the master")


# --- faults -----------------------------------------------------------------------------------------------------------


def kill_of_the_master(run: Run) -> None:
    master = run.master()
    master.process.kill()
    run.strike()
    run.lasts(1, 8)
    master.start()


def kill_of_a_slave(run: Run) -> None:
    slave = run.slave()
    run.strike()
    slave.process.kill()
    run.lasts(1, 8)
    slave.start()


def kill_of_the_engines_leader(run: Run) -> None:
    number = run.engine_leader()
    run.strike()
    again = run.kill_engine(number)
    run.lasts(3, 8)
    again()


def kill_of_the_master_and_the_engines_leader(run: Run) -> None:
    master, number = run.master(), run.engine_leader()
    again = run.kill_engine(number)
    master.process.kill()
    run.strike()
    run.lasts(3, 8)
    again()
    master.start()


def pause_of_the_master(run: Run) -> None:
    master = run.master()
    run.strike()
    master.process.pause()
    run.lasts(LONGER_S, LONGER_S + 6)
    master.process.resume()


def pause_of_a_slave(run: Run) -> None:
    slave = run.slave()
    run.strike()
    slave.process.pause()
    run.lasts(2, 8)
    slave.process.resume()


def pause_of_the_engines_leader(run: Run) -> None:
    engine = run.engines[run.engine_leader()]
    run.strike()
    engine.pause()
    run.lasts(3, 8)
    engine.resume()


def _cut(run: Run, sides: Callable[[Member], None]) -> None:
    """Lose packets as *sides* says for some time, with more clients on the host of the master."""
    master = run.master()
    near = run.add_load(master.host, "near-")
    near.wait_for_more(SOME)
    run.strike()
    sides(master)
    run.lasts(LONGER_S, LONGER_S + 6)
    run.hosts.join()


def master_cut_off_from_slaves(run: Run) -> None:
    _cut(run, lambda master: run.hosts.cut([master.host], [each.host for each in run.members]))


def master_cut_off_from_the_engine(run: Run) -> None:
    _cut(run, lambda master: run.hosts.cut([master.host], run.engine_hosts))


def master_cut_off_from_slaves_and_the_engine(run: Run) -> None:
    others = [*run.engine_hosts, *(each.host for each in run.members)]
    _cut(run, lambda master: run.hosts.cut([master.host], others))


def master_cut_off_from_everything(run: Run) -> None:
    _cut(run, lambda master: run.hosts.cut([master.host], run.hosts.others(master.host)))


def what_the_master_sends_is_lost(run: Run) -> None:
    _cut(run, lambda master: run.hosts.lose([master.host], run.hosts.others(master.host)))


def what_is_sent_to_the_master_is_lost(run: Run) -> None:
    _cut(run, lambda master: run.hosts.lose(run.hosts.others(master.host), [master.host]))


def clients_cut_off_from_the_master(run: Run) -> None:
    _cut(run, lambda master: run.hosts.cut([master.host], [run.clients]))


def the_engines_leader_cut_off_from_the_other_nodes(run: Run) -> None:
    number = run.engine_leader()
    run.strike()
    run.hosts.cut([run.engine_hosts[number]], run.engine_hosts)
    run.lasts(LONGER_S, LONGER_S + 6)
    run.hosts.join()


def a_slow_master(run: Run) -> None:
    """It stands still every moment, sometimes for longer than the time between two renewals."""
    master = run.master()
    run.strike()
    for _ in range(SLOW_STEPS):
        master.process.pause()
        run.lasts(*SLOW_S)
        master.process.resume()
        run.lasts(*SLOW_S)


FAULTS = (
    *(kill_of_the_master, kill_of_a_slave, kill_of_the_engines_leader, kill_of_the_master_and_the_engines_leader),
    *(pause_of_the_master, pause_of_a_slave, pause_of_the_engines_leader, a_slow_master),
    *(master_cut_off_from_slaves, master_cut_off_from_the_engine, master_cut_off_from_slaves_and_the_engine),
    *(master_cut_off_from_everything, what_the_master_sends_is_lost, what_is_sent_to_the_master_is_lost),
    *(clients_cut_off_from_the_master, the_engines_leader_cut_off_from_the_other_nodes),
)
ONE_NODE = (pause_of_the_master, kill_of_the_master, kill_of_the_engines_leader, master_cut_off_from_the_engine)
THREE_NODES = (
    *(kill_of_the_master, kill_of_the_master_and_the_engines_leader, kill_of_the_engines_leader),
    *(pause_of_the_master, master_cut_off_from_everything, what_the_master_sends_is_lost),
)
ETCD = Engine("etcd", 3)
RUNS = (
    *((ETCD, FAULTS[each % len(FAULTS)]) for each in range(30)),
    *((Engine("controller", 1), each) for each in ONE_NODE),
    *((Engine("controller", 3), each) for each in THREE_NODES),
)


@pytest.fixture(scope="module")
def table() -> Iterator[dict[tuple[str, str], list[Result]]]:
    """Results by engine and fault, printed at the end."""
    results: dict[tuple[str, str], list[Result]] = defaultdict(list)
    yield results
    for (engine, fault), rows in results.items():
        sums = [f"{sum(int(each[column]) for each in rows):,}" for column in ("acknowledged", "unsure", "lost")]
        times = [sorted(each[column] for each in rows) for column in ("without a master", "not acknowledged")]
        spans = [f"{statistics.median(each):.1f} s | {each[-1]:.1f} s" for each in times]
        print(f"| {engine} | {fault} | {len(rows)} | {' | '.join([*sums, *spans])} |")


@pytest.mark.parametrize(
    "number",
    [int(ONLY)]
    if ONLY
    else [
        *(pytest.param(each, marks=pytest.mark.slow) for each in SHORT),
        *(
            pytest.param(each, marks=[pytest.mark.long, pytest.mark.interop])
            for each in range(len(RUNS))
            if each not in SHORT
        ),
    ],
)
def test_no_acknowledged_message_is_lost(
    number: int,
    tmp_path: Path,
    table: dict[tuple[str, str], list[Result]],
    record_property: Callable[[str, object], None],
) -> None:
    engine, fault = RUNS[number]
    brokers = 3 if number % 3 else 2
    name = fault.__name__.replace("_", " ")
    with ExitStack() as stack:
        run = Run(stack, tmp_path, number, engine, brokers)
        fault(run)
        run.over(name)
        run.last_switch()
        found, history = run.judge(), run.history
    said = {"acknowledged": len(history.acknowledged), "unsure": history.unsure, "lost": len(history.lost(found))}
    for each, cost in run.costs.items():
        row = {**said, **cost} if each == name else {"acknowledged": 0, "unsure": 0, "lost": 0, **cost}
        table[engine.name, each].append(row)
    print(f"run {number}: {engine.name} of {engine.nodes}, {brokers} brokers, {said}, {run.costs}")
    record_property("findings", f"{name}: {said} {run.costs}")
    if not ONLY:
        shutil.rmtree(tmp_path, ignore_errors=True)
