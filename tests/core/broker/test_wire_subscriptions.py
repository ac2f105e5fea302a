"""Topics that a group may not read: 353."""

from __future__ import annotations

from broker_desk import body_of


def test_a_group_is_forbidden_a_topic_and_allowed_again(broker):
    async def main(desk):
        ext = {"group": "CG", "topic": "T"}
        await desk.send("T")
        assert (await desk.ask(353, {**ext, "readable": "false"})).code == 26
        await desk.heartbeat("CG")
        assert body_of(await desk.ask(353, ext))["readable"] is True
        assert body_of(await desk.ask(353, {**ext, "readable": "false"})) == {**ext, "readable": False}
        assert (await desk.pull("T", sysFlag="0")).code == 16
        assert body_of(await desk.ask(353, {**ext, "readable": "true"}))["readable"] is True
        assert desk.tables.groups.forbidden == {}

    broker(main)
