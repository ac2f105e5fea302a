"""What a load is measured to be, on the virtual clock, and how rounds are compared."""

import asyncio

import pytest

from gantrymq_admin.bench.measuring import Figures, Limit, load, percentile, ratios, summary, turns


def measured(simulate, call_s, limit, **more):
    """Figures of calls that take *call_s* seconds of the virtual clock each."""
    under_way = []

    async def work(world):
        now = 0

        async def call():
            nonlocal now
            now += 1
            under_way.append(now)
            await world.clock.sleep(call_s)
            now -= 1

        return await load(call, limit, clock=world.clock, cpu_s=lambda: world.clock.monotonic() / 10, **more)

    return simulate(work), under_way


def test_a_count_of_messages_one_after_the_other(simulate):
    figures, under_way = measured(simulate, 0.01, Limit(messages=50), in_flight=1)
    assert (figures.messages, max(under_way)) == (50, 1)
    assert figures.seconds == pytest.approx(0.5)
    assert figures.rate == pytest.approx(100)
    assert figures.cpu_s == pytest.approx(0.05)


def test_the_number_of_calls_in_flight_is_limited(simulate):
    figures, under_way = measured(simulate, 0.01, Limit(messages=100), in_flight=10)
    assert (figures.messages, max(under_way)) == (100, 10)
    assert figures.rate == pytest.approx(1000)


def test_calls_of_several_messages_count_them_all(simulate):
    figures, _ = measured(simulate, 0.01, Limit(messages=95), in_flight=2, each=10)
    assert (figures.messages, len(figures.times_s)) == (100, 10)
    assert figures.rate == pytest.approx(2000)


def test_seconds_behind_a_warm_up(simulate):
    figures, under_way = measured(simulate, 0.05, Limit(seconds=2, warmup_s=1), in_flight=4)
    assert figures.seconds == 2
    assert len(under_way) == pytest.approx(4 * 60, abs=8)
    assert figures.messages == pytest.approx(4 * 40, abs=8)
    assert figures.cpu_s == pytest.approx(0.2, abs=0.02)


def test_the_first_error_ends_it_and_nothing_goes_on(simulate):
    async def work(world):
        calls = 0

        async def call():
            nonlocal calls
            calls += 1
            await world.clock.sleep(0.01)
            if calls > 5:
                raise ValueError("enough")

        with pytest.raises(ValueError, match="enough"):
            await load(call, Limit(messages=1000), in_flight=3, clock=world.clock, cpu_s=lambda: 0.0)
        await world.clock.sleep(1)
        return calls, len(asyncio.all_tasks())

    calls, tasks = simulate(work)
    assert (calls < 12, tasks) == (True, 1)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 0.5, None), ([7.0], 0.5, 7), ([1, 2, 3, 4], 0.5, 2), (list(range(1, 101)), 0.99, 99), ([1, 2], 1.0, 2)],
)
def test_percentiles_are_values_that_were_measured(values, share, expected):
    assert percentile(values, share) == expected


def test_a_document_has_every_figure_with_its_unit():
    figures = Figures(1000, 2.0, 0.05, [0.001] * 98 + [0.005, 0.009])
    assert figures.document(2**20) == {
        "messages": 1000,
        "seconds": 2.0,
        "messages_per_s": 500.0,
        "mib_per_s": 500.0,
        "client_cpu_us_per_message": 50.0,
        "calls": 100,
        "p50_ms": 1.0,
        "p99_ms": 5.0,
        "max_ms": 9.0,
    }


def test_of_nothing_there_are_no_figures():
    document = Figures(0, 1.0, 0.1, ()).document(10)
    assert (document["messages_per_s"], document["p50_ms"], document["client_cpu_us_per_message"]) == (0, None, None)


def test_servers_take_turns_in_another_order():
    assert list(turns(["a", "b"], 3)) == [(1, ["a", "b"]), (2, ["b", "a"]), (3, ["a", "b"])]


def cells(*rates):
    """Rates of a and b, round by round."""
    return [
        {"namesrv": server, "round": number, "size": 1, "messages_per_s": rate, "p50_ms": rate / 10}
        for number, pair in enumerate(rates, 1)
        for server, rate in zip("ab", pair, strict=True)
    ]


def test_rounds_are_compared_pair_by_pair():
    found = ratios(cells((100, 50), (90, 90), (300, 100)), ["size"], "a", "b")
    assert found == [{"size": 1, "least": 1.0, "median": 2.0, "greatest": 3.0}]


def test_a_cell_is_the_median_over_rounds():
    rows = summary(cells((100, 50), (90, 90), (300, 100)), ["size"])
    assert [(row["namesrv"], row["messages_per_s"], row["p50_ms"]) for row in rows] == [("a", 100, 10), ("b", 90, 9)]
