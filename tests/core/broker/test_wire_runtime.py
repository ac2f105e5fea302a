"""The broker about itself (28)."""

from __future__ import annotations

import attrs
from broker_desk import START_MS, body_of, pull_ext

from gantrymq.interfaces import MetricFamily
from gantrymq.plugins import Plugins

# Keys that mqadmin's brokerStatus and clusterList read.
PRINTED = {
    "bootTimestamp",
    "brokerActive",
    "brokerVersionDesc",
    "commitLogMaxOffset",
    "commitLogMinOffset",
    "dispatchBehindBytes",
    "earliestMessageTimeStamp",
    "EndTransactionQueueSize",
    "EndTransactionThreadPoolQueueCapacity",
    "getFoundTps",
    "getMessageEntireTimeMax",
    "getMissTps",
    "getTotalTps",
    "getTransferredTps",
    "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow",
    "msgGetTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow",
    "msgPutTotalYesterdayMorning",
    "pageCacheLockTimeMills",
    "pullThreadPoolQueueCapacity",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueSize",
    "putLatency99",
    "putLatency999",
    "putMessageDistributeTime",
    "putMessageEntireTimeMax",
    "putTps",
    "remainHowManyDataToFlush",
    "runtime",
    "sendThreadPoolQueueCapacity",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "sendThreadPoolQueueSize",
    "startAcceptSendRequestTimeStamp",
}


def figures(answer):
    return body_of(answer)["table"]


def test_the_figures_that_tools_print_are_there_as_texts(broker):
    async def main(desk):
        table = figures(await desk.ask(28))
        assert PRINTED.difference(table) == set()
        assert all(isinstance(value, str) for value in table.values())
        assert table["earliestMessageTimeStamp"] == "-1"

    broker(main)


def test_messages_are_counted_in_and_out(broker):
    async def main(desk):
        await desk.send("T")
        await desk.send("T")
        await desk.pull("T")
        await desk.clock.sleep(90)
        table = figures(await desk.ask(28))
        assert table["msgPutTotalTodayNow"] == table["msgGetTotalTodayNow"] == "2"
        assert table["commitLogMaxOffset"] == table["putMessageSizeTotal"] != "0"
        assert START_MS <= int(table["earliestMessageTimeStamp"]) < START_MS + 1000
        assert table["runtime"] == "[ 0 days, 0 hours, 1 minutes, 30 seconds ]"
        ten, minute, ten_minutes = map(float, table["putTps"].split())
        assert (ten, minute) == (0, 0)
        assert 0.02 <= ten_minutes <= 0.025

    broker(main)


def test_messages_to_the_brokers_own_topics_are_not_those_of_users(broker):
    async def main(desk):
        for topic in ("T", "broker-a", "DefaultCluster"):
            assert (await desk.send(topic)).code == 0
            await desk.pull(topic)
        table = figures(await desk.ask(28))
        assert table["msgPutTotalTodayNow"] == table["msgGetTotalTodayNow"] == "1"

    broker(main)


def test_refused_sends_and_held_pulls_are_counted(broker):
    async def main(desk):
        await desk.send("no good name!")
        await desk.send("T")
        held = desk.later(11, pull_ext("T", 1, wait_s=5))
        await desk.clock.sleep(1)
        table = figures(await desk.ask(28))
        assert (table["putMessageFailedTimes"], table["pullRequestsHeld"]) == ("1", "1")
        assert (await held).code == 19

    broker(main)


def test_a_broker_without_messages_counts_one_put_as_java_does(broker):
    async def main(desk):
        table = figures(await desk.ask(28))
        assert (table["putMessageTimesTotal"], table["msgPutTotalTodayNow"]) == ("1", "0")

    broker(main)


def test_what_mornings_found_follows_two_midnights(broker):
    def days(table):
        """Yesterday's and today's messages in and out, as clusterList -m and gantrymq status work them out."""
        seen = []
        for way in ("Put", "Get"):
            eve, morning, now = (
                int(table[f"msg{way}Total{when}"]) for when in ("YesterdayMorning", "TodayMorning", "TodayNow")
            )
            seen.append((morning - eve, now - morning))
        return seen

    async def main(desk):  # starts at 22:13 UTC
        await desk.send("T")
        await desk.send("T")
        await desk.pull("T")
        assert days(figures(await desk.ask(28))) == [(0, 2), (0, 2)]
        await desk.clock.sleep(2 * 3600)
        await desk.send("T")
        assert days(figures(await desk.ask(28))) == [(2, 1), (2, 0)]
        await desk.clock.sleep(24 * 3600)
        await desk.pull("T", 2)
        assert days(figures(await desk.ask(28))) == [(1, 0), (0, 1)]

    broker(main, limit_s=2 * 24 * 3600)


class SlowStore:
    """The memory store with a delay of 30 ms for reads."""

    def __init__(self, store, clock):
        self._store, self._clock = store, clock

    def __getattr__(self, name):
        return getattr(self._store, name)

    def get(self, *args):
        async def slowly():
            await self._clock.sleep(0.030)
            return self._store.get(*args)

        return slowly()

    async def flushed_slowly(self, log_offset):
        await self._clock.sleep(0.070)

    def flushed(self, log_offset):
        return self.flushed_slowly(log_offset)


def test_the_times_of_puts_and_gets(broker, plugins):
    async def main(desk):
        for _ in range(100):
            await desk.send("T")
        await desk.pull("T")
        table = figures(await desk.ask(28))
        assert (table["putMessageEntireTimeMax"], table["getMessageEntireTimeMax"]) == ("70", "30")
        assert "[50~100ms]:0 " in table["putMessageDistributeTime"]
        await desk.clock.sleep(61)
        table = figures(await desk.ask(28))
        assert table["putMessageDistributeTime"].startswith("[<=0ms]:0 [0~10ms]:0 [10~50ms]:0 [50~100ms]:100 ")
        assert 65 <= float(table["putLatency99"]) <= float(table["putLatency999"]) <= 70
        await desk.clock.sleep(60)
        table = figures(await desk.ask(28))
        assert (table["putLatency99"], table["putMessageEntireTimeMax"]) == ("0.00", "70")

    make = plugins.stores["memory"]
    slow = Plugins(stores={"memory": lambda context: SlowStore(make(context), context.world.clock)})
    broker(main, plugins=slow, flushDiskType="SYNC_FLUSH")


def test_what_plugins_show_under_a_key_is_in_the_table(broker, plugins):
    class Showing:
        name = "showing"

        async def start(self, broker):
            broker.metrics.register(lambda: MetricFamily("a", "A.", (), {(): 7}, runtime_key="timerCongestNum"))
            broker.metrics.register(
                lambda: MetricFamily("b", "B.", (), {(): 8}, runtime_rows={"scheduleMessageOffset_3": "1,2"})
            )
            broker.metrics.register(lambda: 1 / 0)

        async def stop(self):
            """Nothing to end."""

    async def main(desk):
        table = figures(await desk.ask(28))
        assert (table["timerCongestNum"], table["timerReadBehind"]) == ("7", "0")
        assert table["scheduleMessageOffset_3"] == "1,2"
        assert not {"a", "b"} & set(table)

    broker(main, plugins=attrs.evolve(plugins, services=(Showing(),)))
