"""The peers that a port trusts, the second port, and offsets beyond the queue."""

import asyncio
import socket

from quiet_ports import quiet_port

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.server import RemotingServer
from gantrymq_testing.simulated import simulate


class Peer(asyncio.Protocol):
    closed = False

    def connection_lost(self, exc):
        self.closed = True


def test_bi126_a_proxy_header_from_a_peer_that_is_not_a_proxy(row, logged):
    """In a simulated world, whose hosts have non-loopback addresses: loopback addresses are trusted."""

    async def main(world):
        server = RemotingServer(world, None)
        await server.start("10.0.0.1", 10911)
        transport, peer = await world.network.on_host("10.0.0.9").connect("10.0.0.1", 10911, Peer)
        transport.write(b"PROXY TCP4 10.1.2.3 10.0.0.1 5555 80\r\n\0\0\0")
        await world.clock.sleep(1.0)
        await server.stop()
        return peer.closed, transport.get_extra_info("sockname")

    closed, (host, port) = simulate(1, main)
    assert closed
    row.check(logged.wait_for(f"{host}:{port}"), "closed", peer=f"{host}:{port}", address=host)


def test_bi127_a_proxy_s_address_that_is_none(program, row):
    row.check(*program.refusal("--set", "proxyProtocolAddresses=10.1.2.3, proxy.local"), text="proxy.local")


def test_bi128_a_fast_port_that_is_taken(program, row, tmp_path):
    port = quiet_port(2)
    with socket.create_server(("127.0.0.1", port)):
        words = ("--broker-port", port + 2, "--store", tmp_path / "store")
        row.check(*program.refusal(*words), port=port, host="127.0.0.1")
    assert not (tmp_path / "store" / "abort").exists()


def test_bi129_a_commit_behind_the_end(broker, row):
    with broker.peer() as peer:
        assert peer.create_topic("Read").code == 0
        assert peer.send("Read").code == 0
        commit = {"consumerGroup": "G129", "topic": "Read", "queueId": "0"}
        assert peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b'{"groupName":"G129"}').code == 0
        assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**commit, "commitOffset": "1"}).code == 0
        answer = peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**commit, "commitOffset": "2"})
        row.check(answer.remark, answer.code, group="G129", offset=2, topic="Read", queue=0, end=1)
        assert peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, commit).ext == {"offset": "1"}
