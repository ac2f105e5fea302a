"""Cost of access control: CPU per send and per pull, decisions, and the start with many users.

    python benchmarks/bench_access.py [cpu] [--seconds S] [--rounds N] [--size BYTES]
    python benchmarks/bench_access.py decisions
    python benchmarks/bench_access.py users

``cpu``: brokers without and with access control take turns, each with and without compiled functions. The clients sign
their requests as RocketMQ's do. Sends are asynchronous with 64 in flight, pulls read 32 messages. Kinds:

    none        no authorizer; the requests are not signed
    cached      an authorizer that allows everything and checks the first signature of a connection (stateful)
    stateless   the same; every signature is checked, by the broker
    plugin      the same; every signature is checked, by the authorizer
    acl, acl stateless, plain   the authorizers of gantrymq-access and gantrymq-access-plain, if they are installed

``decisions``: time of a decision, cached and uncached, with 100,000 entries of policies.
``users``: time and memory of a broker's start with 10,000 users of gantrymq-access, compared with one user.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import runpy
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

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

from gantrymq.broker.access import AccessControl
from gantrymq.client.calls.credentials import Credentials
from gantrymq.model.access import Action, Decision, Principal, Resource, ResourceType
from gantrymq.remoting.command import request
from gantrymq.remoting.signatures import Signer

TOPIC, GROUP, QUEUES, UNDER_WAY = "Access", "readers", 8, 64
GOAL_CACHED, GOAL_STATELESS = 1.05, 2.0  # times the CPU of a send without access control
GOAL_DECISION_US, GOAL_UNCACHED_US = 1.0, 50.0
GOAL_START_S, GOAL_START_MB = 1.0, 20.0
ENTRIES, ENTRIES_OF_USER, USERS = 100_000, 10_000, 10_000
USER, SECRET = "benchmark", "a secret for a benchmark"
PLUGIN = f"""
from gantrymq.errors import NoPermission
from gantrymq.plugin import hookimpl
from gantrymq.plugin.model import Decision, Principal, is_signature
from gantrymq.plugin.settings import Setting

SECRETS = ({SECRET.encode()!r},)

class AllowAll:
    def __init__(self, context):
        mode = context.settings.text("allowAllMode")
        self.each_request = mode != "cached"
        if mode == "stateless":
            self.secrets_of = lambda access_key: SECRETS

    def authenticate(self, credentials, client):
        if not is_signature(credentials.signature, credentials.signed_content(), SECRETS):
            raise NoPermission("the signature is wrong")
        return Principal(credentials.access_key)

    def authorize(self, principal, actions, resource):
        return Decision(True)

@hookimpl
def gantry_register_config(registry):
    registry.add(Setting.text("allowAllMode", "cached", "Which signatures are checked."))

@hookimpl
def gantry_register_authorizers(registry):
    registry.add("allow_all", AllowAll)
"""
PLAIN_RULES = f"accounts:\n- accessKey: {USER}\n  secretKey: {SECRET}\n  admin: true\n"
ACL = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": USER, "password": SECRET}),
}
STATEFUL = {"authenticationStrategy": "stateful", "authorizationStrategy": "stateful"}


class Kind(NamedTuple):
    """One way to run the broker."""

    settings: dict[str, str]
    goal: float | None = None
    needs: str = ""  # a module


KINDS = {
    "none": Kind({}),
    "cached": Kind({"authorizer": "allow_all", "allowAllMode": "cached"}, GOAL_CACHED),
    "stateless": Kind({"authorizer": "allow_all", "allowAllMode": "stateless"}, GOAL_STATELESS),
    "plugin": Kind({"authorizer": "allow_all", "allowAllMode": "plugin"}),
    "acl": Kind({**ACL, **STATEFUL}, GOAL_CACHED, "gantrymq_access.authorizer"),
    "acl stateless": Kind(ACL, GOAL_STATELESS, "gantrymq_access.authorizer"),
    "plain": Kind({"aclEnable": "true"}, GOAL_STATELESS, "gantrymq_access_plain"),
}


def run_broker() -> None:
    """Run the program in the arguments with the plugin installed in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        info = Path(folder) / "allow_all-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: allow_all\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[gantrymq]\nallow_all = allow_all\n")
        (Path(folder) / "allow_all.py").write_text(PLUGIN)
        rules = Path(folder) / "conf" / "plain_acl.yml"
        rules.parent.mkdir()
        rules.touch(mode=0o600)
        rules.write_text(PLAIN_RULES)
        os.environ["ROCKETMQ_HOME"] = folder
        sys.path.insert(0, folder)
        sys.argv = sys.argv[2:]
        runpy.run_path(sys.argv[0], run_name="__main__")


# --- CPU --------------------------------------------------------------------------------------------------------------


def signed(made: Request) -> Request:
    """Add credentials to a request."""
    command = request(made.code, dict(made.ext), made.body or None)
    Signer(Credentials(USER, SECRET)).sign(command)
    return Request(made.code, command.ext or {}, made.body)


async def cpu_us(broker: BrokerProcess, connections: list[Connection], requests: list[Request], for_s: float) -> float:
    """Return the broker's CPU per answered request, microseconds."""
    pump = Pump(connections, itertools.cycle(requests).__next__, UNDER_WAY)
    pump.start()
    await asyncio.sleep(min(1.0, for_s / 2))
    before, cpu = pump.answers, broker.cpu_s()
    used = 0.0
    while not used:  # it may be shorter than a tick of the kernel's clock
        await asyncio.sleep(for_s)
        used, answers = broker.cpu_s() - cpu, pump.answers - before
    await pump.stop()
    if pump.refused:
        raise SystemExit(f"the broker refused requests: {dict(pump.refused)}")
    return used / answers * 1e6


async def measure(broker: BrokerProcess, sign: bool, options: argparse.Namespace) -> tuple[float, float]:
    """Return the CPU per send and per pull."""
    connections = await connect(broker.address, 1)
    sends = [send_request(TOPIC, number % QUEUES, bytes([number]) * options.size) for number in range(64)]
    pulls = [pull_request(TOPIC, queue, 0, GROUP) for queue in range(QUEUES)]
    create = create_topic_request(TOPIC, QUEUES)
    if sign:
        create, sends, pulls = signed(create), [*map(signed, sends)], [*map(signed, pulls)]
    answer = await connections[0].call(create)
    if answer.code:
        raise SystemExit(f"the broker refused the topic: {answer.header!r}")
    sent = await cpu_us(broker, connections, sends, options.seconds)
    pulled = await cpu_us(broker, connections, pulls, options.seconds)
    for connection in connections:
        connection.close()
    return sent, pulled


def start(settings: dict[str, str], store: Path | None = None) -> BrokerProcess:
    """Start a broker with the trial plugin."""
    return BrokerProcess({"flushDiskType": "ASYNC_FLUSH", **settings}, store=store, python=(__file__, "--broker"))


def measure_cpu(options: argparse.Namespace) -> None:
    """Print the least of the rounds and their ratios to those without access control: contention only adds CPU time."""
    kinds = {name: kind for name, kind in KINDS.items() if not kind.needs or _is_there(kind.needs)}
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(options.rounds):
        for switch in ("on", "off"):
            os.environ["GANTRYMQ_SPEEDUPS"] = switch
            for name, kind in kinds.items():
                with start(kind.settings) as broker, asyncio.Runner(loop_factory=new_loop) as runner:
                    took = runner.run(measure(broker, name != "none", options))
                found.setdefault((switch, name), []).append(took)
    print(f"load of the machine {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, bodies of {options.size} bytes")
    print(f"{'compiled':8} {'kind':14} {'CPU us/send':>12} {'ratio':>6} {'CPU us/pull':>12} {'ratio':>6}")
    for (switch, name), rounds in found.items():
        sent, pulled = map(min, zip(*rounds, strict=True))
        plain = [*map(min, zip(*found[switch, "none"], strict=True))]
        ratios = sent / plain[0], pulled / plain[1]
        goal = kinds[name].goal
        verdict_ = "" if goal is None or switch == "off" else f"   goal for sends {goal}: {verdict(ratios[0], goal)}"
        print(f"{switch:8} {name:14} {sent:12.2f} {ratios[0]:6.2f} {pulled:12.2f} {ratios[1]:6.2f}{verdict_}")


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


# --- decisions --------------------------------------------------------------------------------------------------------


def least_us(work: Callable[[], object], calls: int) -> float:
    """Return the CPU time of a call, microseconds, as the least of several measurements."""
    took = []
    for _ in range(9):
        begin = time.process_time_ns()
        for _ in range(calls):
            work()
        took.append((time.process_time_ns() - begin) / calls / 1e3)
    return min(took)


def measure_decisions() -> None:
    """Print the time of a decision that is cached, and of one that is not."""
    from gantrymq_access.decisions import Decider
    from gantrymq_access.records import Acl, Entry, EntryAction, EntryResource, EntryType, Policy, PolicyType

    def entry(number: int) -> Entry:
        text = f"Topic:orders-{number}*" if number % 10 == 0 else f"Topic:orders-{number}"
        return Entry(EntryResource.parse(text), (EntryAction.PUB,), number % 7 != 0, ("10.0.0.0/8", "::1"))

    deciders = []
    for user in range(ENTRIES // ENTRIES_OF_USER):
        entries = tuple(entry(number) for number in range(ENTRIES_OF_USER))
        deciders.append(Decider(Acl(f"user{user}", (Policy(PolicyType.CUSTOM, entries),))))
    begin = time.process_time()
    for each in deciders:
        each.compile()
    print(f"compiling {ENTRIES} entries of {len(deciders)} users: {time.process_time() - begin:.2f} s")
    turn = itertools.cycle(itertools.product(deciders, range(1, ENTRIES_OF_USER, 997)))

    def decide() -> object:
        decider, number = next(turn)
        return decider.decide((EntryAction.PUB,), EntryType.TOPIC, f"orders-{number}x", "10.1.2.3")

    uncached = least_us(decide, 2000)
    print(f"uncached: {uncached:.2f} us, goal {GOAL_UNCACHED_US:.0f}: {verdict(uncached, GOAL_UNCACHED_US)}")
    authorizer: Any = SimpleNamespace(authenticate=None, authorize=lambda *given: Decision(True))
    access = AccessControl(authorizer, "cluster", lambda kind, name: None)
    principal, topic = Principal(USER, "10.1.2.3"), Resource(ResourceType.TOPIC, TOPIC)
    cached = least_us(lambda: access.check(principal, Action.PUB, topic), 20_000)
    print(f"cached: {cached:.2f} us, goal {GOAL_DECISION_US:.0f}: {verdict(cached, GOAL_DECISION_US)}")


# --- many users -------------------------------------------------------------------------------------------------------


def measure_users() -> None:
    """Print what users add to the start of a broker and to its memory."""
    if not _is_there("gantrymq_access.authorizer"):
        raise SystemExit("install gantrymq-access: pip install ./plugins/access")
    times: dict[int, list[float]] = {1: [], USERS: []}
    memory: dict[int, list[float]] = {1: [], USERS: []}
    with tempfile.TemporaryDirectory() as folder:
        for count in times:
            config = Path(folder) / f"store{count}" / "config"
            config.mkdir(parents=True)
            write_users(config, count)
        for _ in range(5):
            for count in times:
                begin = time.monotonic()
                with start(ACL, Path(folder) / f"store{count}") as broker:
                    times[count].append(time.monotonic() - begin)
                    memory[count].append(broker.private_bytes() / 1e6)
    more_s = min(times[USERS]) - min(times[1])
    more_mb = statistics.median(memory[USERS]) - statistics.median(memory[1])
    print(f"{USERS} users with a policy each: start {min(times[USERS]):.2f} s, with one {min(times[1]):.2f} s")
    print(f"the users add {more_s:.2f} s, goal {GOAL_START_S:.0f}: {verdict(more_s, GOAL_START_S)}")
    print(f"the users add {more_mb:.1f} MB, goal {GOAL_START_MB:.0f}: {verdict(more_mb, GOAL_START_MB)}")


def write_users(config: Path, count: int) -> None:
    """Write the files of users and policies."""
    users: list[dict[str, object]] = [
        {"username": f"user{number:05}", "password": f"secret{number:05}", "userType": "Normal", "userStatus": "enable"}
        for number in range(count)
    ]
    policies = [
        {
            "subject": f"User:{user['username']}",
            "policies": [
                {
                    "policyType": "Custom",
                    "entries": [
                        {"resource": f"Topic:of-{user['username']}", "actions": ["Pub", "Sub"], "decision": "Allow"},
                        {"resource": f"Group:of-{user['username']}*", "actions": ["Sub"], "decision": "Allow"},
                    ],
                }
            ],
        }
        for user in users
    ]
    for name, content in (("users.json", {"users": users}), ("acls.json", {"acls": policies})):
        path = config / name
        path.touch(mode=0o600)
        path.write_text(json.dumps(content))


def main() -> None:
    """Print one figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", nargs="?", choices=("cpu", "decisions", "users"), default="cpu")
    parser.add_argument("--seconds", type=seconds(0.1), default=3.0, help="seconds that count, of each kind and round")
    parser.add_argument("--rounds", type=whole(1), default=5)
    parser.add_argument("--size", type=whole(1), default=1024, help="bytes of a body")
    options = parser.parse_args()
    if options.figure == "decisions":
        measure_decisions()
    elif options.figure == "users":
        measure_users()
    else:
        measure_cpu(options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--broker"]:
        run_broker()
    else:
        main()
