"""A fake broker with a log in memory that it copies, and serves, by the HA protocol of elected roles."""

import asyncio
import time
from contextlib import suppress

from fake_broker import HOST, FakeBroker

from gantrymq.formats.record import encode_record
from gantrymq.interfaces import LogRange
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.headers.nameserver import RegisterBrokerRequest
from gantrymq_replication.election.auto_switch import HandshakeAnswer, MasterSide, Report, SlaveHandshake, SlaveSide
from gantrymq_replication.election.runner import Mastered


class StreamBroker(FakeBroker):
    """As a master it registers with a name server, so that Java's slaves find its HA port."""

    def __init__(self, world, make_engine, namesrv, ha_of, **more):
        super().__init__(world, make_engine, **more)
        self._namesrv, self._ha_of = namesrv, ha_of
        self.log, self.copying = bytearray(), asyncio.Event()
        self.copying.set()
        self.problem = ""
        self._copying, self._serving, self._grown = None, set(), asyncio.Event()

    async def start(self):
        self._ha = await asyncio.start_server(self._serve, HOST, 0)
        self.ha_address = f"{HOST}:{self._ha.sockets[0].getsockname()[1]}"
        self._client = RemotingClient(self.world)
        await super().start()

    async def stop(self, *, resign=False):
        await super().stop(resign=resign)
        await self._end_connections()
        self._ha.close()
        await self._client.close()

    def requests(self, connection, commands):
        super().requests(connection, commands)
        for each in commands:
            if not each.is_oneway:  # tables of a Java slave
                connection.reply(each, Command(3, remark="not supported"))

    async def _end_connections(self):
        for task in [self._copying, *self._serving]:
            if task is not None:
                task.cancel()
        self._copying = None
        await asyncio.sleep(0)

    # --- roles --------------------------------------------------------------------------------------------------------

    async def become_master(self, epoch):
        await self._end_connections()
        await super().become_master(epoch)
        await self.register(epoch)
        return Mastered(self.confirmed, len(self.log))

    async def register(self, epoch):
        header = RegisterBrokerRequest(
            broker_name="broker-a",
            broker_addr=self.address,
            cluster_name="DefaultCluster",
            ha_server_addr=self.ha_address,
            broker_id=0,
        )
        version = '{"counter":1,"stateVersion":%d,"timestamp":%d}' % (epoch, time.time() * 1000)  # noqa: UP031
        table = f'{{"dataVersion":{version},"topicConfigTable":{{}}}}'
        body = f'{{"filterServerList":[],"topicConfigSerializeWrapper":{table}}}'.encode()
        answer = await self._client.call(self._namesrv, request(RequestCode.REGISTER_BROKER, header.to_ext(), body))
        assert answer.code == 0, answer

    async def follow(self, master):
        await self._end_connections()
        await super().follow(master)
        self._copying = asyncio.ensure_future(self._copy_always(master))

    # --- slave --------------------------------------------------------------------------------------------------------

    async def _copy_always(self, master):
        while True:
            try:
                await self._copy(master)
            except OSError as error:
                self.problem = str(error)
            await asyncio.sleep(0.2)  # real time: a pause before the next connection

    async def _copy(self, master):
        host, port = self._ha_of(master.address).split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        side = SlaveSide(SlaveHandshake(self.machine._rules.own_id, False, False))
        writer.write(side.handshake())
        try:
            while data := await reader.read(1 << 16):
                await self.copying.wait()
                for event in side.receive(data):
                    if isinstance(event, HandshakeAnswer):
                        point = 0
                        if self.epochs.entries:
                            point = self.epochs.consistent_point(len(self.log), event.epochs, event.end)
                        self.events.append(f"cut {len(self.log)} to {point}")
                        del self.log[point:]
                        self.epochs.cut_from_offset(point)
                        writer.write(side.follow(point))
                    elif event.data:
                        assert event.log_offset == len(self.log)
                        self.epochs.append(*event.epoch)
                        self.log += event.data
                        self.end = len(self.log)
                        self.confirmed = max(self.confirmed, min(event.confirm_offset, self.end))
                        writer.write(side.report(self.end))
        finally:
            writer.transport.abort()

    # --- master -------------------------------------------------------------------------------------------------------

    def put(self, topic, queue_offset):
        """Append one message to queue 0 of *topic*."""
        assert self.machine.may_accept(self.now)
        self.log += encode_record(
            topic=topic,
            queue_id=0,
            body=b"from our broker",
            properties=b"",
            queue_offset=queue_offset,
            log_offset=len(self.log),
            store_timestamp=int(time.time() * 1000),
        )
        self.end = len(self.log)
        self.machine.appended(self.end)
        self._grown.set()

    async def _serve(self, reader, writer):
        task, side = asyncio.current_task(), MasterSide()
        self._serving.add(task)
        sending = None
        try:
            while data := await reader.read(1 << 16):
                for event in side.receive(data):
                    self.events.append(event)
                    if not isinstance(event, Report):
                        writer.write(side.answer(self.epochs, len(self.log)))
                    elif sending is None:
                        side.begin(LogRange(0, len(self.log)), 0)
                        self.election.do(self.machine.connected(side.slave.broker_id, side.acked, False, self.now))
                        sending = asyncio.ensure_future(self._send(side, writer))
                    else:
                        self.election.do(self.machine.reported(side.slave.broker_id, side.acked, self.now))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._serving.discard(task)
            if sending is not None:
                sending.cancel()
                self.election.do(self.machine.gone(side.slave.broker_id, self.now))
            writer.transport.abort()

    async def _send(self, side, writer):
        while True:
            data = bytes(self.log[side.next_offset : side.next_offset + min(32768, side.room(self.epochs))])
            writer.writelines(side.transfer(data, self.epochs, self.machine.set.confirmed))
            if not data:
                self._grown.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._grown.wait(), 1)
