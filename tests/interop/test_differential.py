"""One script per kind of message on a Java broker 5.3.3 and on ours: the results are equal except for named
differences.

Compared are every record of the run with its queue entry, by topic and queue, including system topics; the messages
and notices that consumers and producers got. Times, ids and addresses are left out.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from differential.account import account
from differential.kinds import KINDS
from differential.named import DIFFERENT, differences, unnamed
from differential.side import Side
from differential.stored import FILE_SETTINGS
from harness import GantryServer, JavaBroker, JavaNameServer
from harness.peers import used
from polling import wait_until

pytestmark = pytest.mark.interop

VERSION = "5.3.3"
CONTROL = os.environ.get("GANTRYMQ_INTEROP_CONTROL")  # two Java brokers, to check that the scripts are deterministic
LATE_S = 3.0
SOON = {
    **FILE_SETTINGS,
    "messageDelayLevel": "1s 2s 1s 1s 1s 1s",
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
    "transactionCheckMax": "3",
    "recallMessageEnable": "true",
    "reviveQueueNum": "1",
}
JAVA_ALONE = {"transactionOpBatchInterval": "100", "timerWheelEnable": "true"}
Sides = tuple[Side, Side]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """The Java broker's side and ours; both run for all kinds."""
    scratch = tmp_path_factory.mktemp("differential")
    with ExitStack() as stack:
        java = java_side(stack, scratch, "java")
        yield java, java_side(stack, scratch, "java-again") if CONTROL else our_side(stack, scratch)


def java_side(stack: ExitStack, scratch: Path, name: str) -> Side:
    namesrv = stack.enter_context(JavaNameServer(VERSION, scratch / f"{name}-namesrv"))
    settings = {**SOON, **JAVA_ALONE}
    broker = stack.enter_context(JavaBroker(VERSION, scratch / name, namesrv.address, settings=settings, keep=False))
    stack.callback(broker.kill)  # a regular stop takes seconds, and the store is discarded
    side = Side(name, namesrv.address, broker.address, broker.store, scratch / f"{name}-steps")
    stack.enter_context(side.steps)
    return side


def our_side(stack: ExitStack, scratch: Path) -> Side:
    namesrv = stack.enter_context(GantryServer.name_server(scratch / "our-namesrv"))
    broker = stack.enter_context(GantryServer.broker(scratch / "ours", namesrv.namesrv, settings=SOON))
    side = Side("ours", namesrv.namesrv, broker.broker_address, broker.store, scratch / "our-steps")
    stack.enter_context(side.steps)
    return side


@pytest.mark.parametrize("kind", KINDS)
def test_a_script_leaves_what_it_leaves_at_a_java_broker(
    sides: Sides, kind: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    used(f"rocketmq-client {VERSION}")
    used(f"RocketMQ broker {VERSION}")
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda side: run(kind, side), sides))
    found: list[str] = []

    def same() -> bool:
        found[:] = differences(*(kept(side, tmp_path) for side in sides))
        return unnamed(kind, found) == ([], [])

    # A consumer that leaves commits its offsets without waiting for a response.
    with suppress(TimeoutError):
        wait_until(same, "the same", LATE_S)
    assert unnamed(kind, found) == ([], []), "\n".join(found)
    if reasons := {named.reason for named in DIFFERENT if named.kind == kind}:
        record_property("result", f"differs: {'; '.join(sorted(reasons))}")


def run(kind: str, side: Side) -> None:
    """Run the script of *kind*."""
    side.begin()
    try:
        KINDS[kind](side)
    finally:
        side.do("stop")


def kept(side: Side, scratch: Path) -> list[str]:
    """Return the result of the run; it is also written to a file."""
    lines = account(side)
    assert len(lines) > 3
    (scratch / f"{side.name}.txt").write_text("\n".join(lines))
    return lines
