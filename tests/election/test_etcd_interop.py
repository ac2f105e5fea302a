"""Brokers of ours, without a log, in elections by Debian's etcd."""

import asyncio
import json
import os
import sys
import time
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_replication")
pytest.importorskip("aetcd")

from certificates import make_certificate
from etcd_brokers import LEASE_S, etcd_broker
from etcd_servers import etcdctl, leader, start_etcd
from forwarder import Forwarder
from harness.process import Process
from polling import until

from gantrymq.world.real import real_world

pytestmark = pytest.mark.interop
HERE = Path(__file__).parent
STATE = "/gantry/DefaultCluster/broker-a/state"


@pytest.fixture
def running():
    with ExitStack() as stack:
        yield stack.enter_context


def run(folder, endpoints, main):
    """Run ``main(start)``, where ``start(name)`` starts a broker."""

    async def run_all():
        world = real_world()
        async with AsyncExitStack() as stack:

            async def start(name, **more):
                fake = await etcd_broker(world, folder / name, more.pop("endpoints", endpoints), **more)
                stack.push_async_callback(fake.stop)
                return fake

            await main(start)
        await world.workers.close()

    asyncio.run(run_all())


async def joined(master, other):
    await until(lambda: other.role == "slave", "slave", detail=lambda: f"{other.election.problem} {other.events}")
    master.copies(other)
    await until(lambda: (known := master.machine.set) is not None and len(known.members) == 2, "set of two")


def test_elections_by_one_etcd(running, tmp_path):
    [etcd] = start_etcd(running, tmp_path, 1)

    async def main(start):
        one = await start("one")
        await until(lambda: one.serving, "master", detail=lambda: f"{one.election.problem} {one.events}")
        assert (tmp_path / "one" / "brokerIdentity").read_text() == "DefaultCluster#broker-a#1"
        two = await start("two")
        await joined(one, two)
        assert two.following.ha_address == one.address
        one.append()
        assert not one.machine.may_acknowledge(one.end, one.now)
        one.copies(two)
        assert one.machine.may_acknowledge(one.end, one.now)

        # A broker outside the set does not become the master, and says why.
        three = await start("three")
        await until(lambda: three.role == "slave", "slave")

        # What was compacted is not asked for.
        revision = json.loads(etcdctl(etcd, "get", STATE, "-w", "json"))["header"]["revision"]
        etcdctl(etcd, "compact", str(revision))

        # The master dies: its lease ends, and the other member of the set is elected.
        began = two.now
        await one.stop()
        await until(lambda: two.serving, "new master", detail=lambda: str(two.events))
        took = two.now - began
        print(f"{took:.1f} s without a master after a death, lease {LEASE_S} s")
        assert took < LEASE_S + 2
        assert two.machine.epoch == 2 and two.machine.set.members in ({1, 2}, {2})
        await until(lambda: two.machine.set.members == {2}, "shrunk set")
        await until(lambda: three.following.master == 2, "other slave")

        # It comes back with its id and follows; then the master hands over.
        one = await start("one")
        await joined(two, one)
        began = one.now
        await two.election.hand_over(1)
        await until(lambda: one.serving, "successor", detail=lambda: str(one.events))
        print(f"{one.now - began:.2f} s until the successor serves")
        assert one.now - began < 1 and one.machine.epoch == 3
        await joined(one, two)
        await one.election.hand_over(2)
        await joined(two, one)
        began = one.now
        await two.stop(resign=True)
        await until(lambda: one.serving, "successor", detail=lambda: str(one.events))
        print(f"{one.now - began:.1f} s without a master in a handover")
        assert one.now - began < 1 and one.machine.epoch == 5

        # Nobody of the set is left: the third broker says who must come back.
        await until(lambda: one.machine.set.members == {1}, "shrunk set")
        await one.stop()
        await until(lambda: "not in the in-sync set 1:" in three.machine.problem(one.now), "sentence")
        assert three.role == "slave" and not three.serving
        one = await start("one")
        await until(lambda: one.serving, "master")

        # A broker of another name is refused in a sentence.
        four = await start("three", broker="broker-b")
        await until(lambda: "this store belongs to another set of brokers" in four.election.problem, "refusal")

    run(tmp_path, (etcd.endpoint,), main)


def test_the_last_member_that_may_have_lost_messages_is_not_elected(running, tmp_path):
    [etcd] = start_etcd(running, tmp_path, 1)

    async def main(start):
        one = await start("one", durable=False)
        await until(lambda: one.serving, "master")
        await one.stop(resign=True)
        one = await start("one", durable=False)
        await until(lambda: one.serving, "master after a clean stop")
        await one.stop()
        one = await start("one", durable=False)
        await until(lambda: one.machine and "a person must elect it" in one.machine.problem(one.now), "sentence", 15)
        assert not one.serving
        damaged = await start("two", unelectable="its list of epochs is damaged")
        await until(lambda: damaged.machine is not None, "machine")
        assert not damaged.serving

    run(tmp_path, (etcd.endpoint,), main)


@pytest.mark.long
def test_three_etcd_members(running, tmp_path):
    etcds = start_etcd(running, tmp_path, 3)

    async def main(start):
        one = await start("one")
        await until(lambda: one.serving, "master")
        two = await start("two")
        await joined(one, two)
        dead = leader(etcds)
        dead.kill()
        one.lose(two)
        until_s, gaps = one.now + LEASE_S + 2, 0.0
        while one.now < until_s:
            gaps += 0 if one.serving or two.serving else 0.05
            await asyncio.sleep(0.05)  # real time: what is measured
        print(f"{gaps:.1f} s without a master after the death of etcd's leader")
        await until(lambda: one.serving or two.serving, "master")
        master, slave = (one, two) if one.serving else (two, one)
        await until(lambda: len(master.machine.set.members) == 1, "smaller set")

        # Without a majority the master fences itself, and serves again when there is one.
        dead_too = next(each for each in etcds if each.alive())
        dead_too.kill()
        began = master.now
        await until(lambda: not master.serving, "fenced master", LEASE_S + 1)
        print(f"fenced {master.now - began:.1f} s after the majority was lost")
        assert "fenced" in master.machine.problem(master.now)
        assert slave.role == "slave"
        restarted = [each if each.alive() else running(each.again()) for each in etcds]
        await until(lambda: one.serving or two.serving, "master")

        # A rolling restart of etcd: the master serves all the time.
        master, slave = (one, two) if one.serving else (two, one)
        await joined(master, slave)
        epoch, gaps = master.machine.epoch, 0.0
        for each in restarted:
            await asyncio.to_thread(each.stop)
            until_s = master.now + 1
            again = running(each.again())
            while master.now < until_s or "ready to serve client requests" not in again.log():
                gaps += 0 if master.serving else 0.05
                await asyncio.sleep(0.05)  # real time: what is measured
        print(f"{gaps:.1f} s without a master in a rolling restart of etcd, epoch {epoch} -> {master.machine.epoch}")
        assert gaps < LEASE_S and master.machine.epoch == epoch

    run(tmp_path, tuple(each.endpoint for each in etcds), main)


def test_a_frozen_master_acknowledges_nothing_after_the_election(running, tmp_path):
    [etcd] = start_etcd(running, tmp_path, 1)
    paths = [str(HERE), str(HERE.with_name("support")), str(HERE.with_name("interop"))]
    child = running(
        Process(
            "frozen",
            [sys.executable, HERE / "frozen_master.py", tmp_path / "one", etcd.endpoint],
            tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
    )
    child.leaves_something = False

    async def main(start):
        await until(lambda: child.of("role"), "role", detail=child.tail)
        two = await start("two", least_copies=1)
        await until(lambda: two.role == "slave", "slave")
        child.write_line("copies 2")
        await until(lambda: len(child.of("ack")) > 20, "acknowledgements", detail=child.tail)
        child.pause()
        await until(lambda: two.serving, "new master", detail=lambda: str(two.events))
        elected = time.monotonic()
        two.append()
        child.resume()
        await until(lambda: child.of("role")[-1]["role"] == "slave", "slave", detail=child.tail)
        late = [each for each in child.of("ack") if each["t"] >= elected]
        assert not late
        assert {each["epoch"] for each in child.of("ack")} == {1} and two.machine.epoch == 2

    run(tmp_path, (etcd.endpoint,), main)


def test_answers_of_etcd_are_lost(running, tmp_path):
    [etcd] = start_etcd(running, tmp_path, 1)

    async def main(start):
        forwarder = Forwarder(int(etcd.endpoint.rpartition(":")[2]))
        one = await start("one", endpoints=(await forwarder.start(),))
        await until(lambda: one.serving, "master")
        two = await start("two")
        await until(lambda: two.role == "slave" and 2 in one.engine._seen.members, "slave")
        forwarder.deaf = True
        one.copies(two)
        assert one.machine.set.counted == {1, 2} and one.machine.set.members == {1}
        await until(lambda: one.machine.set._unanswered, "unknown outcome", 10)
        assert "[1, 2]" in etcdctl(etcd, "get", STATE)
        assert one.machine.set.counted == {1, 2}, "the union counts"
        forwarder.deaf = False
        forwarder.cut()
        await until(lambda: one.serving and one.machine.set.members == {1, 2}, "set that was read back", 20)
        assert not one.machine.set._possible

        # The answer to an election is lost: the broker finds that it won.
        await two.stop()
        forwarder.deaf = True
        await until(lambda: not one.serving, "fenced master", LEASE_S + 1)
        await asyncio.sleep(LEASE_S)  # real time: the lease ends
        forwarder.deaf = False
        forwarder.cut()
        await until(lambda: one.serving, "master", 20)
        await forwarder.stop()

    run(tmp_path, (etcd.endpoint,), main)


def test_tls_and_authentication(running, tmp_path):
    authority, client = make_certificate(tmp_path, "ca"), make_certificate(tmp_path, "client", authority="ca")
    client_key = str(tmp_path / "client.key")
    server = make_certificate(tmp_path, "server", "/CN=server", "ca", names="IP:127.0.0.1")
    tls = ("--cert-file", server, "--key-file", str(tmp_path / "server.key"))
    [etcd] = start_etcd(running, tmp_path, 1, (*tls, "--client-cert-auth", "--trusted-ca-file", authority))
    options = ["--cacert", authority, "--cert", client, "--key", client_key]
    for words in (
        "user add root:secret",
        "user grant-role root root",
        "user add broker:word",
        "role add brokers",
        "role grant-permission --prefix=true brokers readwrite /gantry/",
        "user grant-role broker brokers",
        "user add other:word",
        "auth enable",
    ):
        etcdctl(etcd, *words.split(), options=options)
    secure = {
        "tls": True,
        "ca": Path(authority).read_bytes(),
        "certificate": Path(client).read_bytes(),
        "key": Path(client_key).read_bytes(),
    }

    async def main(start):
        one = await start("one", client={**secure, "user": "broker", "password": "word"})
        await until(lambda: one.serving, "master", detail=lambda: f"{one.election.problem} {one.events}")
        for name, more, sentence in (
            ("wrong", {"user": "broker", "password": "other"}, "refuses user 'broker'"),
            ("other", {"user": "other", "password": "word"}, "user 'other' needs the right to read and write"),
            ("none", {}, "user '' needs the right"),
        ):
            broker = await start(name, client={**secure, **more})
            await until(lambda: sentence in broker.election.problem, sentence, 20, lambda: broker.election.problem)  # noqa: B023
        plain = await start("plain", client={})
        await until(lambda: "etcd does not answer" in plain.election.problem, "sentence", 20)

    run(tmp_path, (etcd.endpoint,), main)
