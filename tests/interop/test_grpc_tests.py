"""RocketMQ's own gRPC tests (module test, package grpc.v2), unchanged, at three brokers of ours in place of its proxy.

Maven has no jar of these tests: they are compiled from a clone of apache/rocketmq, whose folder the variable
GANTRYMQ_ROCKETMQ_CLONE names, and are skipped without it. Those that RocketMQ switches off run too. LocalGrpcIT and
ClusterGrpcIT have the same tests and differ only in the proxy, so one of them is run.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import GantryCluster
from harness.jars import QUICK, grpc_tests_class_path
from harness.peers import used
from harness.process import Process

pytestmark = [pytest.mark.interop, pytest.mark.long]

VERSION = "5.3.3"
CLONE = "GANTRYMQ_ROCKETMQ_CLONE"
RUN_S = 300.0  # they take 60, and fail on a busy machine: some of their deadlines are a second
# What the tests set in the objects of Java's brokers and proxy.
SETTINGS = {
    "listeners": "sdk=grpc://127.0.0.1:0",
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
    "transactionCheckInterval": "1000",
    "minInvisibleTimeMillsForRecv": "3",
    "grpcClientConsumerMinLongPollingTimeoutMillis": "0",
}
CLASS = "org.apache.rocketmq.test.grpc.v2.LocalGrpcIT"
TESTS = (
    "testConsumeOrderly",
    "testQueryAssignment",
    "testQueryFifoAssignment",
    "testQueryRoute",
    "testSimpleConsumerSendAndRecallDelayMessage",
    "testSimpleConsumerSendAndRecv",
    "testSimpleConsumerSendAndRecvBigMessage",
    "testSimpleConsumerSendAndRecvDelayMessage",
    "testSimpleConsumerToDLQ",
    "testTransactionCheckThenCommit",
)
# Test -> the beginning of its failure, and what differs.
DIFFERENT = {
    "testSimpleConsumerSendAndRecvBigMessage": (
        "expected:<[GZIP]> but was:<[IDENTITY]>",
        "bodies are handed out plain, whatever encoding their producer named",
    )
}
Problems = dict[str, str | None]


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Problems:
    """Run all tests. Return why each failed, or None, by name."""
    pytest.importorskip("gantrymq_grpc.protocol", reason="gantrymq-grpc is not installed")
    pytest.importorskip("cryptography", reason="the brokers sign their certificates with it")
    clone = os.environ.get(CLONE)
    if not clone:
        pytest.skip(f"Maven has no jar of these tests; set {CLONE} to the folder of a clone of apache/rocketmq")
    class_path = grpc_tests_class_path(VERSION, Path(clone))
    scratch = tmp_path_factory.mktemp("grpc-tests")
    names = ("namesrv-1", "broker-a", "broker-b", "broker-c")
    with GantryCluster(scratch / "ours", names=names, broker_settings=SETTINGS) as ours:
        port = ours.server("broker-a").ready["listeners"]["sdk"].rpartition(":")[2]
        addresses = (f"-Drocketmq.namesrv.addr={ours.namesrv}", f"-Dgantrymq.grpc.port={port}")
        java = ("java", *QUICK, f"-Duser.home={scratch}", *addresses, "-cp", class_path)
        with Process("grpc-tests", [*java, "gantrymq.interop.GrpcTests", CLASS], scratch) as tests:
            events = tests.finish(RUN_S)
    return {event["name"]: event["problem"] for event in events if event["event"] == "test"}


def test_all_tests_of_the_class_are_known(problems: Problems) -> None:
    assert sorted(problems) == sorted(TESTS)


@pytest.mark.parametrize("name", TESTS)
def test_a_test_of_rocketmq_passes(
    name: str, problems: Problems, record_property: Callable[[str, object], None]
) -> None:
    used(f"RocketMQ gRPC tests {VERSION}")
    problem = problems[name]
    if name not in DIFFERENT:
        assert problem is None, problem
        return
    expected, what = DIFFERENT[name]
    assert problem is not None and expected in problem, problem
    record_property("result", f"differs: {what}")
