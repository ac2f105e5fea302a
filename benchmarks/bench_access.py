"""CPU of the broker per send and per pull with an authorizer that allows everything, compared with none.

    python benchmarks/bench_access.py [--seconds S] [--rounds N]

Three brokers take turns: one without an authorizer; one with it, for clients that do not sign; one with it, for a
client that signs its requests as RocketMQ's does. Sends are asynchronous with 64 under way, pulls read 32 messages.
Each principal is authenticated once per connection, each decision is made once.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import runpy
import statistics
import sys
import tempfile
from pathlib import Path

from arguments import seconds, whole
from load_client import (
    BrokerProcess,
    Connection,
    Pump,
    Request,
    connect,
    create_topic_request,
    new_loop,
    pull_request,
    send_request,
    verdict,
)

from gantrymq.client.calls.credentials import Credentials, Signer
from gantrymq.remoting.command import request

TOPIC, GROUP, QUEUES, UNDER_WAY, GOAL = "Access", "readers", 8, 64, 1.2
SECRET = "a secret for a benchmark"
PLUGIN = f"""
import base64, hmac
from gantrymq.errors import NoPermission
from gantrymq.hooks import hookimpl
from gantrymq.model.access import Decision, Principal

class AllowAll:
    def __init__(self, context):
        pass

    def authenticate(self, credentials, client):
        if credentials.access_key:
            expected = base64.b64encode(hmac.digest({SECRET.encode()!r}, credentials.signed_content(), "sha1"))
            if not hmac.compare_digest(credentials.signature.encode(), expected):
                raise NoPermission("the signature is wrong")
        return Principal(credentials.access_key or "anonymous")

    def authorize(self, principal, action, resource):
        return Decision(True)

@hookimpl
def gantry_register_authorizers(registry):
    registry.add("allow_all", AllowAll)
"""
KINDS = {"none": False, "unsigned": False, "signed": True}


def run_broker() -> None:
    """Run the program in the arguments with the plugin installed in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        info = Path(folder) / "allow_all-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: allow_all\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[gantrymq]\nallow_all = allow_all\n")
        (Path(folder) / "allow_all.py").write_text(PLUGIN)
        sys.path.insert(0, folder)
        sys.argv = sys.argv[2:]
        runpy.run_path(sys.argv[0], run_name="__main__")


def signed(made: Request) -> Request:
    """Add credentials to a request."""
    command = request(made.code, dict(made.ext), made.body or None)
    Signer(Credentials("benchmark", SECRET)).sign(command)
    return Request(made.code, command.ext or {}, made.body)


async def cpu_us(broker: BrokerProcess, connections: list[Connection], requests: list[Request], for_s: float) -> float:
    """Return the broker's CPU per answered request, microseconds."""
    pump = Pump(connections, itertools.cycle(requests).__next__, UNDER_WAY)
    pump.start()
    await asyncio.sleep(min(1.0, for_s / 2))
    before, cpu = pump.answers, broker.cpu_s()
    await asyncio.sleep(for_s)
    cpu, answers = broker.cpu_s() - cpu, pump.answers - before
    await pump.stop()
    if pump.refused:
        raise SystemExit(f"the broker refused requests: {dict(pump.refused)}")
    return cpu / answers * 1e6


async def measure(broker: BrokerProcess, sign: bool, for_s: float) -> tuple[float, float]:
    """Return the CPU per send and per pull."""
    connections = await connect(broker.address, 1)
    sends = [send_request(TOPIC, number % QUEUES, b"%04d" % number * 64) for number in range(64)]
    pulls = [pull_request(TOPIC, queue, 0, GROUP) for queue in range(QUEUES)]
    create = create_topic_request(TOPIC, QUEUES)
    if sign:
        create, sends, pulls = signed(create), [*map(signed, sends)], [*map(signed, pulls)]
    answer = await connections[0].call(create)
    if answer.code:
        raise SystemExit(f"the broker refused the topic: {answer.header!r}")
    sent = await cpu_us(broker, connections, sends, for_s)
    pulled = await cpu_us(broker, connections, pulls, for_s)
    for connection in connections:
        connection.close()
    return sent, pulled


def main() -> None:
    """Print the medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=seconds(0.1), default=3.0, help="seconds that count, of each kind and round")
    parser.add_argument("--rounds", type=whole(1), default=5)
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for _ in range(options.rounds):
        for kind, sign in KINDS.items():
            settings = {"flushDiskType": "ASYNC_FLUSH"} | ({} if kind == "none" else {"authorizer": "allow_all"})
            with (
                BrokerProcess(settings, python=(__file__, "--broker")) as broker,
                asyncio.Runner(loop_factory=new_loop) as runner,
            ):
                found[kind].append(runner.run(measure(broker, sign, options.seconds)))
    print(f"{'authorizer':12} {'CPU us/send':>12} {'ratio':>6} {'CPU us/pull':>12} {'ratio':>6}")
    plain = [statistics.median(column) for column in zip(*found["none"], strict=True)]
    worst = 1.0
    for kind, rounds in found.items():
        sent, pulled = (statistics.median(column) for column in zip(*rounds, strict=True))
        ratios = sent / plain[0], pulled / plain[1]
        worst = max(worst, *ratios)
        print(f"{kind:12} {sent:12.2f} {ratios[0]:6.2f} {pulled:12.2f} {ratios[1]:6.2f}")
    print(f"goal: at most {GOAL} times the CPU without one: {verdict(worst, GOAL)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--broker"]:
        run_broker()
    else:
        main()
