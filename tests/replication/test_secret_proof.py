"""Proof of a shared secret on HA connections: the exchange, wrong ones, and brokers with and without the setting."""

import asyncio
import os
import random
from pathlib import Path

import pytest
from ha_pairs import end, following, problem, put, replicas, service, simulate_pair

from gantrymq.errors import ConfigError
from gantrymq.world.real import RealFiles
from gantrymq_replication.master import MasterService
from gantrymq_replication.protocol import HEAD, Refused, SlaveSide
from gantrymq_replication.secret_proof import MasterProof, SlaveProof, read_secret

SECRET, OTHER = b"secret of the cluster", b"secret of a stranger"
FILE = Path("/secret")


def sides(chance, master=SECRET, slave=SECRET):
    return MasterProof(master, chance.randbytes(32)), SlaveProof(slave, chance.randbytes(32))


def exchange(master, slave, change=lambda step, data: data):
    """Run the exchange; *change* sees each message. Raises Refused."""
    response = slave.respond(change(0, master.challenge))
    slave.check(change(2, master.answer(change(1, response))))


def test_both_sides_of_one_secret_accept_each_other_and_send_new_bytes_each_time():
    seen = []
    for seed in range(20):
        exchange(*sides(random.Random(seed)), lambda step, data: seen.append(data) or data)
    assert len(set(seen)) == 60 and not any(SECRET in each for each in seen)
    assert [len(each) for each in seen[:3]] == [44, 64, 32]


def test_nonces_do_not_tell_the_random_bytes():
    assert SECRET not in MasterProof(SECRET, bytes(32)).challenge
    assert MasterProof(SECRET, bytes(32)).challenge != MasterProof(OTHER, bytes(32)).challenge
    assert not MasterProof(SECRET, bytes(32)).challenge.endswith(bytes(32))


def flip(data, chance):
    place = chance.randrange(8 * len(data))
    return data[: place // 8] + bytes([data[place // 8] ^ 1 << place % 8]) + data[place // 8 + 1 :]


WRONG = {
    "flip": flip,
    "cut": lambda data, chance: data[: chance.randrange(len(data))],
    "more": lambda data, chance: data + chance.randbytes(1),
    "noise": lambda data, chance: chance.randbytes(len(data)),
    "text": lambda data, chance: (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3)[: len(data)],
    "zeros": lambda data, chance: bytes(len(data)),
    "empty": lambda data, chance: b"",
    "turned": lambda data, chance: data[::-1],
}


@pytest.mark.parametrize("kind", WRONG)
def test_every_changed_message_is_refused(kind):
    chance = random.Random(kind)
    for wrong in [0, 1, 2] * 200:
        with pytest.raises(Refused):
            exchange(
                *sides(chance), lambda step, data, wrong=wrong: WRONG[kind](data, chance) if step == wrong else data
            )


def test_another_secret_is_refused_by_each_side():
    for seed in range(200):
        with pytest.raises(Refused, match="this master's haSecretPath"):
            exchange(*sides(random.Random(seed), slave=OTHER))
        stranger, slave = sides(random.Random(seed), master=OTHER)
        slave.respond(stranger.challenge)
        with pytest.raises(Refused, match="this broker's haSecretPath"):
            slave.check(stranger.answer(SlaveProof(OTHER, b"x").respond(stranger.challenge)))


def test_what_was_recorded_is_of_no_use_in_another_connection():
    chance, messages = random.Random(1), []
    exchange(*sides(chance), lambda step, data: messages.append(data) or data)
    master, slave = sides(chance)
    with pytest.raises(Refused):
        master.answer(messages[1])
    slave.respond(messages[0])  # of a master that was recorded
    with pytest.raises(Refused):
        slave.check(messages[2])


def test_a_proof_is_of_no_use_to_the_side_that_computed_it():
    """A stranger sends the challenge of a master to a slave, or what a slave sends back to it."""
    master, slave = sides(random.Random(1))
    response = slave.respond(master.challenge)
    with pytest.raises(Refused):
        slave.check(response[32:])
    answer = master.answer(response)
    with pytest.raises(Refused):
        MasterProof(SECRET, b"another").answer(response[:32] + answer)
    fresh = SlaveProof(SECRET, b"fresh")
    with pytest.raises(Refused):
        fresh.check(b"")  # before a challenge


def test_a_slave_that_does_not_know_the_exchange_takes_nothing_from_it():
    for start in (0, 1, 4096):
        with pytest.raises(Refused, match="set haSecretPath here too"):
            list(SlaveSide(start).receive(MasterProof(SECRET, b"x").challenge))


def test_a_slave_of_rocketmq_finds_no_transfer_in_a_challenge():
    """It closes the connection if the offset is not its end, unless its log is empty, and waits for the whole body."""
    offset, size = HEAD.unpack_from(MasterProof(SECRET, b"x").challenge)
    assert offset < 0 and 4 << 20 < size < size + HEAD.size < 1 << 31  # Java's sum of both must not overflow


# --- the file --------------------------------------------------------------------------------------------------------


@pytest.fixture
def secret_file(tmp_path):
    def write(content, mode=0o600):
        path = tmp_path / "secret"
        path.write_bytes(content)
        path.chmod(mode)
        return str(path)

    return write


def test_a_secret_is_read_without_white_space_around_it(secret_file):
    for mode in (0o400, 0o600, 0o640):
        assert read_secret(RealFiles(), secret_file(b" " + SECRET + b"\r\n", mode)) == SECRET


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("mode", [0o604, 0o602, 0o644, 0o666, 0o777])
def test_a_secret_that_others_may_read_or_change_is_refused(secret_file, mode):
    path = secret_file(SECRET, mode)
    with pytest.raises(ConfigError, match=f"other users .* {path} \\(mode {mode:04o}\\); run: chmod o= {path}"):
        read_secret(RealFiles(), path)


@pytest.mark.parametrize(("content", "size"), [(b"", 0), (b"short\n", 5), (bytes(5000), 5000), (b" \n" * 20, 0)])
def test_a_secret_of_another_length_is_refused(secret_file, content, size):
    with pytest.raises(ConfigError, match=f"has {size} bytes, 16 to 4096 are allowed; .* openssl rand"):
        read_secret(RealFiles(), secret_file(content))


def test_a_secret_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=f"haSecretPath: there is no file {tmp_path}/none"):
        read_secret(RealFiles(), f"{tmp_path}/none")
    tmp_path.chmod(0o700)
    with pytest.raises(ConfigError, match=f"haSecretPath: {tmp_path} is a folder"):
        read_secret(RealFiles(), str(tmp_path))


# --- brokers ---------------------------------------------------------------------------------------------------------


def with_secret(pair, content=SECRET, path=FILE):
    pair.world.files.replace(path, content)
    return {"haSecretPath": str(path)}


def departures(master):
    return [each.problem for each in service(master, MasterService).replicas.departures.all]


def test_brokers_with_one_secret_copy_after_restarts_too():
    async def main(pair):
        shared = with_secret(pair)
        master = await pair.master(haListenPort=20000, **shared)
        await put(master, 100)
        slave = await pair.slave(master, **shared)
        await pair.equal(master, slave, 1)
        await master.restart()
        await put(master, 10)
        await pair.equal(master, slave, 5)

    simulate_pair(main)


@pytest.mark.parametrize(
    ("its", "of_master", "of_slave"),
    [
        ({}, "it did not prove that it knows the secret of this master's haSecretPath", "set haSecretPath here too"),
        (OTHER, "does not know the secret of this master's haSecretPath", "haSecretPath needs a file with the same"),
    ],
)
def test_a_slave_that_does_not_know_the_secret_is_refused(its, of_master, of_slave):
    async def main(pair):
        master = await pair.master(**with_secret(pair))
        await put(master, 10)
        slave = await pair.slave(master, **(with_secret(pair, its, Path("/other")) if its else {}))
        await pair.until(lambda: of_slave in problem(slave), "a reason", 2)
        await pair.until(lambda: departures(master), "a reason", 7)
        assert of_master in departures(master)[0]
        await pair.world.clock.sleep(30)
        assert end(slave) == 0 and not replicas(master) and len(departures(master)) == 1

    simulate_pair(main)


def test_a_slave_refuses_a_master_that_asks_for_no_secret():
    async def main(pair):
        master = await pair.master()
        await put(master, 10)
        slave = await pair.slave(master, **with_secret(pair))
        await pair.until(
            lambda: "it did not ask for the secret of haSecretPath within 5 s" in problem(slave), "reason", 6
        )
        await pair.world.clock.sleep(30)
        assert end(slave) == 0 and not following(slave)

    simulate_pair(main)


@pytest.mark.parametrize("its", [b"", bytes(8), bytes(63), bytes(64), bytes(1000), b"SSH-2.0-Go\r\n" * 9])
def test_a_stranger_gets_a_challenge_and_nothing_else(its):
    async def main(pair):
        master = await pair.master(**with_secret(pair))
        await put(master, 10)
        reader, writer = await pair.connect(master)
        writer.write(its)
        began, got = pair.world.clock.monotonic(), b""
        try:
            while data := await reader.read(1000):
                got += data
        except OSError:
            pass
        writer.close()
        assert len(got) == 44 and pair.world.clock.monotonic() - began < 5.1
        assert "haSecretPath" in departures(master)[0]

    simulate_pair(main)


def test_a_stranger_does_not_count_for_an_acknowledgement():
    async def main(pair):
        master = await pair.master(brokerRole="SYNC_MASTER", inSyncReplicas=2, **with_secret(pair))
        _, writer = await pair.connect(master)
        writer.write(bytes(8))
        await pair.world.clock.sleep(1)
        assert not replicas(master)
        writer.close()

    simulate_pair(main)


def test_random_strangers_harm_nobody():
    async def main(pair):
        shared, chance = with_secret(pair), random.Random(5)
        master = await pair.master(**shared)
        slave = await pair.slave(master, **shared)
        strangers = []
        for _ in range(300):
            reader, writer = await pair.connect(master)
            strangers.append(writer)
            challenge = await reader.readexactly(44)
            writer.write(chance.choice((b"", challenge, chance.randbytes(64))))
            if chance.random() < 0.5:
                writer.close()
            await pair.world.clock.sleep(0.1)
        await put(master, 20)
        await pair.equal(master, slave, 2)
        assert len(replicas(master)) == 1
        for each in strangers:
            each.close()

    simulate_pair(main)


def test_a_broker_whose_secret_everybody_may_read_does_not_start():
    async def main(pair):
        shared = with_secret(pair)
        pair.world.files.mode = 0o644
        with pytest.raises(ConfigError, match="haSecretPath: other users of this machine may read or change /secret"):
            await pair.master(**shared)
        with pytest.raises(ConfigError, match="haSecretPath"):
            await pair.slave("127.0.0.1:20000", **shared)

    simulate_pair(main)


def test_a_stop_during_the_exchange_is_no_refusal():
    async def main(pair):
        master = await pair.master(**with_secret(pair))
        reader, writer = await pair.connect(master)
        await reader.readexactly(44)
        known = service(master, MasterService).replicas.departures
        await asyncio.wait_for(master.stop(), 4)
        writer.close()
        assert [each.problem for each in known.all] == ["this broker stops, or is no master any more"]

    simulate_pair(main)
