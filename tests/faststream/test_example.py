"""The program of docs/client-faststream.md: under the test broker, and against a broker as it is."""

import asyncio
import os
import signal
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from gantrymq_faststream import TestGantryBroker

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "client" / "stream_app.py"
END_S = 60.0


def test_in_memory():
    spec = spec_from_file_location("stream_app", PROGRAM)
    program = module_from_spec(spec)
    spec.loader.exec_module(program)

    async def main():
        async with TestGantryBroker(program.broker) as broker:
            await broker.publish({"id": 7, "amount": 100}, "ShopOrders")
            program.bill.mock.assert_called_once_with({"id": 7, "amount": 100})
            await program.show.assert_called_once_with({"order_id": 7, "total": 119.0})

    asyncio.run(main())


def test_against_a_broker(servers):
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "NAMESRV_ADDR": servers.namesrv}
    with subprocess.Popen([sys.executable, PROGRAM], stdout=subprocess.PIPE, text=True, env=environ) as child:
        found = []
        while len(found) < 3:
            line = child.stdout.readline()
            assert line
            if line.startswith("order "):
                found.append(line)
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=END_S)
    assert child.returncode == 0
    assert sorted(found) == ["order 1: 119.00\n", "order 2: 238.00\n", "order 3: 357.00\n"]
