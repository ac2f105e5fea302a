"""Brokers of one name with access control: their own requests are signed, and refusals name the missing setting."""

import json
import zlib
from functools import partial
from pathlib import Path

import pytest
from accounts import GUARDED, INNER, SIGNED, Accounts, AccountsPlugin, accounts_of
from acting_groups import simulate_group
from ha_pairs import end, following, problem, put, service, simulate_pair

from gantrymq.client import Credentials
from gantrymq.errors import FormatError, ServiceNotAvailable, StoreError
from gantrymq.model.access import Decision
from gantrymq.model.queue import Queue
from gantrymq.model.role import Role
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.signatures import Signer
from gantrymq_replication.access_state import ASK_ACCESS, read_answer
from gantrymq_replication.election.table_copies import ASK_TABLES
from gantrymq_replication.tables import TablesService
from gantrymq_testing.simulated import simulate

HEARTBEAT = b'{"clientID":"guest","consumerDataSet":[],"producerDataSet":[]}'
SLAVE = {"brokerRole": "SLAVE", "brokerId": 1}


def guarded(main):
    """Run ``main(pair)``; its brokers have the test authorizer."""

    async def run(pair):
        pair.plugins = [("accounts", AccountsPlugin())]
        return await main(pair)

    simulate_pair(run)


def copied(slave):
    return service(slave, TablesService)


async def with_orders(pair, **settings):
    master = await pair.start("master", **settings)
    master.broker.topics.update(TopicConfig("Orders", 4, 4), {})
    await put(master, 8)
    return master


def test_a_slave_copies_the_tables_of_a_master_with_access_control():
    async def main(pair):
        master = await with_orders(pair, **SIGNED)
        master.broker.offsets.commit("G", Queue("Orders", 0), 2)
        slave = await pair.start("slave", master.namesrv, **SLAVE, **SIGNED)
        await pair.equal(master, slave)
        await pair.until(lambda: slave.broker.offsets.committed("G", Queue("Orders", 0)) == 2, "the offset", 3)
        assert slave.broker.topics.get("Orders") and copied(slave).problem == ""
        assert accounts_of(master).refused == []

    guarded(main)


def test_a_slave_without_credentials_does_not_join_and_names_the_setting():
    async def main(pair):
        master = await with_orders(pair, **GUARDED)
        slave = await pair.start("slave", master.namesrv, **SLAVE, **GUARDED)
        await pair.until(lambda: "controls access" in problem(slave), "the refusal")
        assert not following(slave) and end(slave) == 0
        assert problem(slave).endswith(
            "username cannot be null; it controls access: set innerClientAuthenticationCredentials of this server to "
            "an account of the cluster"
        )

    guarded(main)


def test_a_slave_with_a_wrong_secret_does_not_join_and_names_the_setting():
    async def main(pair):
        master = await with_orders(pair, **SIGNED)
        wrong = json.dumps({**INNER, "secretKey": "another"})
        slave = await pair.start(
            "slave", master.namesrv, **SLAVE, **{**SIGNED, "innerClientAuthenticationCredentials": wrong}
        )
        await pair.until(lambda: "check the account in innerClient" in problem(slave), "the refusal")
        assert not following(slave) and "another" not in problem(slave)

    guarded(main)


def test_the_secret_of_brokers_is_changed_one_after_the_other():
    """Both secrets are valid meanwhile, so that a slave with either one copies from a master with either one."""

    async def main(pair):
        both = {**SIGNED, "accounts": json.dumps({"inner": ["inner-secret", "next-secret"]})}
        following_secret = json.dumps({**INNER, "secretKey": "next-secret"})
        master = await with_orders(pair, **both)
        slave = await pair.start("slave", master.namesrv, **SLAVE, **both)
        await pair.until(lambda: copied(slave).rounds, "a round with the old secret")
        await slave.server.stop()
        slave = await pair.start(
            "slave", master.namesrv, **SLAVE, **{**both, "innerClientAuthenticationCredentials": following_secret}
        )
        await pair.until(lambda: copied(slave).rounds, "a round with the new secret")
        assert accounts_of(master).refused == []

    guarded(main)


def test_a_slave_acts_for_a_master_with_access_control_and_hands_over():
    async def main(group):
        for number in range(4):
            await group.master.send(b"%d" % number)
        await group.copied()
        assert accounts_of(group.master.cluster).refused == []
        group.master.process.kill()
        await group.until(lambda: group.slave.role is Role.ACTING_MASTER, "the acting master")
        queue = next(each for each in map(partial(Queue, "T"), range(4)) if group.slave.cluster.store.bounds(each)[1])
        group.slave.cluster.broker.offsets.commit("G", queue, 1)
        await group.master.start()
        await group.copied()
        await group.until(lambda: group.slave.role is Role.REPLICA, "the slave")
        assert group.master.cluster.broker.offsets.committed("G", queue) == 1  # asked of the slave
        assert [accounts_of(each.cluster).refused for each in (group.master, group.slave, group.other)] == [[], [], []]

    simulate_group(main, plugins=[("accounts", AccountsPlugin())], **SIGNED)


# --- users ------------------------------------------------------------------------------------------------------------


async def with_slave(pair, **settings):
    master = await with_orders(pair, **SIGNED)
    slave = await pair.start("slave", master.namesrv, **SLAVE, **{**SIGNED, **settings})
    await pair.until(lambda: copied(slave).rounds and following(slave), "a round")
    return master, slave


def accounts(cluster):
    return json.loads(accounts_of(cluster).text)


def test_a_slave_takes_the_users_of_its_master_when_it_joins():
    async def main(pair):
        other = json.dumps({"inner": ["inner-secret"], "gone": ["x"]})
        master, slave = await with_slave(pair, accounts=other)
        assert accounts(slave) == accounts(master) and accounts_of(slave).taken == 1

    guarded(main)


def test_a_change_of_users_is_answered_when_the_slave_has_it():
    async def main(pair):
        master, slave = await with_slave(pair)
        began = pair.world.clock.monotonic()
        await accounts_of(master).change(shop=["shop-secret"], guest=None)
        assert accounts(slave) == {"inner": ["inner-secret"], "shop": ["shop-secret"]}
        assert pair.world.clock.monotonic() - began < 0.5
        assert accounts_of(slave).taken == 1  # and none in the rounds after it
        await pair.world.clock.sleep(5)
        assert accounts_of(slave).taken == 1

    guarded(main)


def test_a_user_who_is_deleted_is_refused_at_the_slave_at_once():
    async def main(pair):
        master, slave = await with_slave(pair)
        client = RemotingClient(pair.world, sign=Signer(Credentials("guest", "guest-secret")).sign)

        async def asked():
            return (await client.call(slave.broker_address, request(RequestCode.HEART_BEAT, body=HEARTBEAT))).code

        assert await asked() == 0
        await accounts_of(master).change(guest=None)
        assert await asked() == 16
        await client.close()

    guarded(main)


def test_a_change_that_a_slave_does_not_take_is_answered_with_its_id():
    """It is in force at the master, and reaches the slave as soon as that can take it."""

    async def main(pair):
        master, slave = await with_slave(pair)
        held = accounts_of(slave)
        take, held.take_state = held.take_state, refuse
        began = pair.world.clock.monotonic()
        with pytest.raises(
            ServiceNotAvailable, match="broker id 1 did not copy a change of users or permissions in time"
        ):
            await accounts_of(master).change(guest=None)
        assert 2.9 < pair.world.clock.monotonic() - began < 3.5  # slaveTimeout
        assert "guest" not in accounts(master) and "the disk is full" in copied(slave).problem
        held.take_state = take
        await pair.until(lambda: "guest" not in accounts(slave), "the change", 3)

    async def refuse(texts):
        raise StoreError("the disk is full")

    guarded(main)


def test_a_slave_that_is_gone_is_not_waited_for():
    async def main(pair):
        master, slave = await with_slave(pair)
        await slave.server.stop()
        await pair.world.clock.sleep(6)
        began = pair.world.clock.monotonic()
        await accounts_of(master).change(guest=None)
        assert pair.world.clock.monotonic() == began

    guarded(main)


def test_a_master_without_slaves_answers_a_change_at_once():
    async def main(pair):
        master = await with_orders(pair, **SIGNED)
        began = pair.world.clock.monotonic()
        await accounts_of(master).change(guest=None)
        assert pair.world.clock.monotonic() == began

    guarded(main)


def test_an_account_that_may_not_know_secrets_gets_none():
    """A slave with it copies no tables, so that it does not become a master without the users."""

    async def main(pair):
        master, _ = await with_slave(pair)
        client = RemotingClient(pair.world, sign=Signer(Credentials("guest", "guest-secret")).sign)
        answer = await client.call(master.broker_address, request(ASK_ACCESS))
        assert (answer.code, answer.payload) == (16, b"")
        await client.close()

    guarded(main)


def test_a_listener_without_accounts_gives_no_secrets():
    """A request without an account has no principal, like the broker itself."""

    async def main(pair):
        open_door = {"listeners": "internal=remoting://127.0.0.1:10931", "listenerAccess": "internal=optional"}
        master = await with_orders(pair, **SIGNED, **open_door)
        client = RemotingClient(pair.world)
        answer = await client.call("127.0.0.1:10931", request(ASK_ACCESS))
        assert (answer.code, answer.payload) == (16, b"")
        assert (await client.call("127.0.0.1:10931", request(RequestCode.GET_BROKER_CONFIG))).code == 0
        signed = RemotingClient(pair.world, sign=Signer(Credentials("inner", "inner-secret")).sign)
        assert (await signed.call(master.broker_address, request(ASK_ACCESS))).payload
        await signed.close()
        await client.close()

    guarded(main)


def test_changes_of_users_do_not_wait_for_slaves_that_another_user_invents(monkeypatch):
    """Such as any user with ``authenticationEnabled`` alone, where everything but the administration is allowed."""
    monkeypatch.setattr(Accounts, "authorize", lambda self, principal, actions, resource: Decision(allowed=True))

    async def main(pair):
        master = await with_orders(pair, **SIGNED)
        guest = RemotingClient(pair.world, sign=Signer(Credentials("guest", "guest-secret")).sign)
        ask = request(ASK_TABLES, {"brokerId": "77", "number": "-1", "waitMillis": "0", "source": ""})
        assert (await guest.call(master.broker_address, ask)).code == 16
        await accounts_of(master).change(other=["other-secret"])
        await guest.close()

    guarded(main)


def test_a_slave_without_an_authorizer_warns(caplog):
    async def main(pair):
        master = await with_orders(pair, **SIGNED)
        inner = {"innerClientAuthenticationCredentials": SIGNED["innerClientAuthenticationCredentials"]}
        slave = await pair.start("slave", master.namesrv, **SLAVE, **inner)
        await pair.until(lambda: copied(slave).rounds > 3, "rounds")

    guarded(main)
    warned = [each.getMessage() for each in caplog.records if "controls access, and this broker does not" in each.msg]
    assert len(warned) == 1


def test_a_master_without_access_control_leaves_the_users_of_its_slave():
    async def main(pair):
        master = await with_orders(pair)
        slave = await pair.start("slave", master.namesrv, **SLAVE, **SIGNED)
        await pair.until(lambda: copied(slave).rounds > 2, "rounds")
        assert accounts_of(slave).taken == 0 and copied(slave).problem == ""

    guarded(main)


@pytest.mark.parametrize("body", [b"no deflate", zlib.compress(b"[]"), zlib.compress(b'{"a":1}'), zlib.compress(b"{")])
def test_users_that_cannot_be_read_are_refused(body):
    async def main(world):
        with pytest.raises(FormatError, match="the master's users and permissions"):
            await read_answer(Command(0, ext={"controlled": "true", "version": "1"}, body=body), world.workers)
        await world.workers.close()

    simulate(1, main)


# --- the HA port ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "warns"),
    [
        ({"bindAddress": "0.0.0.0", **GUARDED}, True),
        ({"bindAddress": "10.0.0.1", "brokerIP1": "10.0.0.1", **GUARDED}, True),
        ({"bindAddress": "127.0.0.1", **GUARDED}, False),
        ({"bindAddress": "0.0.0.0"}, False),
        ({"bindAddress": "0.0.0.0", "haSecretPath": "/secret", **GUARDED}, False),
    ],
)
def test_a_broker_warns_once_of_an_ha_port_without_identification(settings, warns, caplog):
    async def main(pair):
        pair.world.files.replace(Path("/secret"), b"secret of the cluster")
        await pair.start("master", **settings)

    guarded(main)
    warned = [each for each in caplog.records if "access control does not apply to the HA port" in each.msg]
    assert len(warned) == warns
