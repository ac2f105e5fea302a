"""A broker in a process of its own: ``python frozen_master.py FOLDER ENDPOINT``.

It appends and acknowledges as often as it may, and prints the time of each acknowledgement on the system's monotonic
clock. A line ``copies 2`` on its standard input is the connection of a slave that has everything.
"""

import asyncio
import json
import sys
import threading
import time
from pathlib import Path

from etcd_brokers import etcd_broker

from gantrymq.world.real import real_world


def say(**event):
    print(json.dumps(event), flush=True)


async def main(folder, endpoint):
    world = real_world()
    broker = await etcd_broker(world, folder, (endpoint,), least_copies=2)
    loop, commands = asyncio.get_running_loop(), []

    def read():
        for line in sys.stdin:
            loop.call_soon_threadsafe(commands.append, line.split())
        loop.call_soon_threadsafe(commands.append, ["stop"])

    threading.Thread(target=read, daemon=True).start()
    role, slaves = "", {}
    while not commands or commands[0] != ["stop"]:
        while commands and commands[0][0] == "copies":
            slaves[int(commands.pop(0)[1])] = True
        machine = broker.machine
        if machine is not None and broker.role != role:
            role = broker.role
            say(event="role", role=role, epoch=machine.epoch)
        if machine is not None and machine.is_master:
            for each in slaves:
                if machine.set is not None and each not in machine.set.followers:
                    broker.election.do(machine.connected(each, broker.end, False, broker.now))
            if machine.may_accept(broker.now):
                broker.append()
                for each in slaves:
                    broker.election.do(machine.reported(each, broker.end, broker.now))
                if machine.may_acknowledge(broker.end, broker.now):
                    say(event="ack", t=time.monotonic(), epoch=machine.epoch)
        await asyncio.sleep(0.005)  # real time: rate of the load
    await broker.stop()
    await world.workers.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
