"""When a slave acts, and when not: a master that is frozen, does not start, or is cut off from name servers."""

from acting_groups import simulate_group, timed
from ha_pairs import service

from gantrymq.model.role import Role
from gantrymq_replication.slave import SlaveService


def test_a_slave_acts_for_a_frozen_master_whose_system_accepts_connections():
    async def main(group):
        clock = group.clock
        for number in range(10):
            await group.master.send(b"%d" % number, UNIQ_KEY=f"t{number}", **timed(clock, 30 + 5 * number))
        await group.copied()
        group.master.process.pause()
        await group.until(lambda: group.slave.role is Role.ACTING_MASTER, "acting", 25)
        for _ in range(60):
            assert group.slave.role is Role.ACTING_MASTER
            await clock.sleep(1)
        problem = service(group.slave.cluster, SlaveService).problem
        assert "sent nothing" in problem
        assert "is this the address of its HA port?" not in problem
        assert len(await group.other.received()) == 10
        group.master.process.resume()
        await group.until(lambda: group.slave.role is Role.REPLICA, "the return", 5)

    simulate_group(main)
