"""gRPC clients beside those of remoting, while brokers are killed, connections are cut and calls are reset.

No acknowledged message is lost, a message in the hands of a living member is delivered to no other one, messages of a
member that goes come back in time, ordered groups stay ordered, and transactions end as decided, also after a restart.

``tests/simulation/replay.py --grpc SEED`` runs one seed and prints the result.
"""

from __future__ import annotations

import os

import pytest

pytest.importorskip("gantrymq_grpc")
pytest.importorskip("h2")

from simulation_rig.grpc_run import FAULTS, draw, run

# A kill may hit between the creation of a task and its first step; the coroutine of the task then never starts.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

USUAL = range(1, 9)
LONG = range(1, 201)
REGRESSIONS = {
    15: "a change of the invisible time whose answer was lost was repeated, and the message was delivered twice",
}
CHOSEN = [int(seed) for seed in os.environ.get("GANTRYMQ_SEEDS", "").replace(",", " ").split()]


def check(seed: int) -> None:
    report = run(seed)
    if report.problems:
        found = "\n".join(report.problems[:20])
        pytest.fail(f"seed {seed}; replay it with: python tests/simulation/replay.py --grpc {seed}\n{found}", False)


@pytest.mark.parametrize("seed", CHOSEN or [*USUAL, *REGRESSIONS])
def test_no_message_of_a_grpc_client_is_lost_and_none_has_two_owners(seed):
    check(seed)


@pytest.mark.long
def test_two_hundred_seeds_of_grpc_clients():
    for seed in LONG:
        check(seed)


def test_the_usual_plans_have_every_fault_and_kind_of_member():
    plans = [draw(seed) for seed in USUAL]
    assert {fault for plan in plans for fault in plan.faults} >= set(FAULTS)
    assert {kind for plan in plans for kind in plan.members["G"]} == {"push", "simple", "remoting"}
    assert any(plan.moves for plan in plans)
    assert any(plan.failing for plan in plans)
