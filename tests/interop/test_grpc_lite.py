"""Lite topics (RIP-83) and priorities (RIP-80) with programs of the official 5.x SDKs at our gRPC listener.

Java's proxy has them from 5.5.0 on, in cluster mode only; what it answers is in tests/golden/grpc_lite.jsonl.xz.
"""

from collections.abc import Iterator

import pytest
from harness import GantryServer
from harness.probe import create_group, create_topic
from harness.process import Event
from harness.sdks import SdkProgram, used_sdk

pytestmark = pytest.mark.interop

RUN_S = 150.0
SDKS = ["go-5.1.4", "node-1.0.8"]
PREFIX = "Sdk"
SETTINGS = {"enableLmq": "true", "enableMultiDispatch": "true", "listeners": "sdk=grpc://127.0.0.1:0"}
REFUSED = {"lite_wrong_type": 40014, "lite_illegal_name": 40020}
NOT_CHECKED = {("node-1.0.8", "lite_again")}
CHECKS = ("priority", "lite", "lite_again", "lite_unsubscribed", "lite_dead_letters", *REFUSED)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Event]]:
    """The events of an SDK by check."""
    pytest.importorskip("gantrymq_grpc.protocol", reason="gantrymq-grpc is not installed")
    pytest.importorskip("gantrymq_lite", reason="gantrymq-lite is not installed")
    with GantryServer.both(tmp_path_factory.mktemp("ours"), settings=SETTINGS) as ours:
        create_topic(ours.namesrv, PREFIX + "Lite", attributes="+message.type=LITE")
        create_topic(ours.namesrv, PREFIX + "Priority", attributes="+message.type=PRIORITY")
        create_group(ours.namesrv, PREFIX + "lite", retries=1, attributes={"lite.bind.topic": PREFIX + "Lite"})
        create_topic(ours.namesrv, f"%DLQ%{PREFIX}lite", 1)
        scratch, endpoint = tmp_path_factory.mktemp(request.param), str(ours.ready["listeners"]["sdk"])
        with SdkProgram(request.param, "lite", scratch, endpoint, PREFIX) as program:
            events = program.finish(RUN_S)
        yield {"sdk": request.param, **{event["check"]: event for event in events if event["event"] == "check"}}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("outcomes", SDKS, indirect=True)
def test_a_program_with_lite_topics_and_priorities_works(check: str, outcomes: dict[str, Event]) -> None:
    used_sdk(str(outcomes["sdk"]))
    if (outcomes["sdk"], check) in NOT_CHECKED:
        pytest.skip("this SDK moves a message that failed to the dead letters at once")
    outcome = outcomes[check]
    assert outcome["ok"], outcome
    assert outcome.get("code") in (None, REFUSED.get(check)), outcome
