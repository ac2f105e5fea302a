"""The real world: its parts, and the time of its import."""

import os
import subprocess
import sys

from gantrymq.world.real import real_world


def test_the_real_world_is_this_process():
    world = real_world(worker_threads=1)
    assert world.process_id == os.getpid()
    assert world.host_name
    assert world.environ == os.environ
    assert real_world().random.random() != world.random.random()


def test_real_time_passes():
    clock = real_world().clock
    assert clock.now_ms() > 1_600_000_000_000
    assert clock.monotonic() <= clock.monotonic()


def test_timers_and_sleep_keep_their_order(run):
    async def main(world):
        order = []
        # uvloop runs timers that are due before calls without delay: the process may pause for some ms between two
        # lines
        world.clock.call_later(0.2, order.append, "second")
        world.clock.call_later(0, order.append, "first")
        world.clock.call_later(0.1, order.append, "cancelled").cancel()
        await world.clock.sleep(0.21)
        return order

    assert run(main) == ["first", "second"]


def test_the_protocols_import_without_asyncio():
    program = "import sys, gantrymq.world; print('asyncio' in sys.modules, 'gantrymq.world.real' in sys.modules)"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    found = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]
