"""The broker about itself (28)."""

from __future__ import annotations

from broker_desk import START_MS, body_of, pull_ext

# What mqadmin's brokerStatus and clusterList look for.
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

    async def main(desk):  # begins at 22:13 UTC
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
