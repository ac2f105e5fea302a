"""Programs of the official 5.x SDKs at our gRPC listener, and, in long runs, at Java's proxy 5.3.3.

The programs were written against Java's proxy. Each runs all its checks in one process; README.md lists them. All SDKs
that were selected run at the same time, since they wait most of it; each starts when the one before has started.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness import GantryServer, JavaNameServer, JavaProxy
from harness.process import Event
from harness.sdks import SdkProgram, create_resources, used_sdk

pytestmark = pytest.mark.interop

RUN_S = 150.0  # on an idle machine 30
SETTINGS = {
    "recallMessageEnable": "true",
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "4000",
    "transactionOpBatchInterval": "100",
}
JAVA_ONLY = {"timerWheelEnable": "true"}  # the harness's Java brokers have none
# At Java's proxy a message that is due again waits for the end of the consumer's long poll, by default 20 s.
PROXY = {"grpcClientConsumerMaxLongPollingTimeoutMillis": 5000}
# Codes of refusals; a check without a code was refused by the SDK itself.
REFUSED = {"unknown_topic": 40402, "wrong_type": 40014, "illegal_name": 40002, "system_topic": 40002}
CHECKS = (
    "normal",
    "invisible",
    "fifo",
    "delay",
    "recall",
    "transaction",
    "tag",
    "sql92",
    "push",
    "ordered",
    "dead_letters",
    "ordered_dead_letters",
    "nothing_more",
    *REFUSED,
)
long = pytest.mark.long
SDKS = [
    *("java-5.0.8", "python-5.1.2", "go-5.1.4", "node-1.0.8"),
    *(pytest.param(each, marks=long) for each in ("java-5.2.0", "python-5.1.1")),
]
Outcomes = Callable[[str, str], dict[str, Event]]
_prefixes = itertools.count(1)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcomes]:
    """Return the events of an SDK at a server by check; the first use starts the server and all selected SDKs."""
    running: dict[str, dict[str, SdkProgram]] = {}
    not_started: dict[tuple[str, str], BaseException] = {}

    def found(server: str, sdk: str) -> dict[str, Event]:
        if server not in running:
            running[server] = {}  # a server that does not start is not started again
            namesrv, endpoint = _serve(server, tmp_path_factory.mktemp(server), stack)
            for each in _selected(request, server):
                prefix = f"Sdk{next(_prefixes)}"
                create_resources(namesrv, prefix)
                try:
                    checks = SdkProgram(each, "checks", tmp_path_factory.mktemp(each), endpoint, prefix)
                    checks.wait_for_start(
                        lambda p: p.of("check"), "a first check", RUN_S
                    )  # starting is most of the work
                except (Exception, pytest.skip.Exception) as error:  # fails, or skips, the tests of this SDK only
                    not_started[server, each] = error
                else:
                    running[server][each] = stack.enter_context(checks)
        if (server, sdk) in not_started:
            raise not_started[server, sdk]
        events = running[server][sdk].finish(RUN_S)
        return {event["check"]: event for event in events if event["event"] == "check"}

    with ExitStack() as stack:
        yield found


def _serve(server: str, scratch: Path, stack: ExitStack) -> tuple[str, str]:
    """Start a server, and return the addresses of its name server and of gRPC."""
    if server == "ours":
        listening = {**SETTINGS, "listeners": "sdk=grpc://127.0.0.1:0"}
        ours = stack.enter_context(GantryServer.both(scratch, settings=listening))
        return ours.namesrv, str(ours.ready["listeners"]["sdk"])
    namesrv = stack.enter_context(JavaNameServer("5.3.3", scratch / "namesrv"))
    settings = {**SETTINGS, **JAVA_ONLY}
    proxy = JavaProxy("5.3.3", scratch / "proxy", namesrv.address, settings=settings, proxy_settings=PROXY)
    stack.enter_context(proxy)
    return namesrv.address, proxy.endpoint


def _selected(request: pytest.FixtureRequest, server: str) -> list[str]:
    """Return the SDKs that the selected tests run at *server*."""
    chosen = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module
    ]
    return sorted({str(params["sdk"]) for params in chosen if params["server"] == server})


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("server", ["ours", pytest.param("proxy", marks=long)])
def test_a_program_of_an_sdk_works(server: str, sdk: str, check: str, outcomes: Outcomes) -> None:
    if server == "ours":
        pytest.importorskip("gantrymq_grpc.protocol", reason="gantrymq-grpc is not installed")
    used_sdk(sdk)
    outcome = outcomes(server, sdk)[check]
    assert outcome["ok"], outcome
    assert outcome.get("code") in (None, REFUSED.get(check)), outcome
