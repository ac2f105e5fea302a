"""The history from Prometheus: queries, answers, gaps and failures, at a server that answers as a test says."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
import urllib.request
from urllib.parse import parse_qs

import attrs
import h11
import pytest
from certificates import make_certificate
from click.testing import CliRunner
from manual_clock import ManualClock
from polling import until

from gantrymq.cli import main
from gantrymq.errors import ConfigError, ConnectFailed
from gantrymq.world.real import real_world
from gantrymq_console.data.cluster import BrokerAddress
from gantrymq_console.history import prometheus
from gantrymq_console.history.prometheus import PrometheusHistory
from gantrymq_console.history.prometheus_options import PREFIX, PrometheusOptions
from gantrymq_console.history.reading import KINDS, HistoryUnavailable, Mark, NoHistory, Window
from gantrymq_console.history.subject import subject_history

NOW_MS = 1_795_000_000_000
STEP = 15_000
WINDOW = Window(NOW_MS - 20 * STEP, NOW_MS, STEP)
JSON = "application/json"


class Server(asyncio.Protocol):
    """Answers with what ``answer(what, fields)`` returns, an object or (status, kind, body); None: never."""

    def __init__(self, site):
        self.site = site
        self.http = h11.Connection(h11.SERVER)
        self.body = b""

    def connection_made(self, transport):
        self.transport = transport
        self.site.open.add(transport)

    def connection_lost(self, exc):
        self.site.open.discard(self.transport)

    def data_received(self, data):
        self.http.receive_data(data)
        while (event := self.http.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Request):
                self.request = event
            elif isinstance(event, h11.Data):
                self.body += event.data
            else:
                self.answer()
                return

    def answer(self):
        path = self.request.target.decode()
        fields = {name: values[0] for name, values in parse_qs(self.body.decode()).items()}
        self.site.asked.append((path, fields, dict(self.request.headers)))
        found = self.site.answer(path.rpartition("/")[2], fields)
        if found is None:
            return
        status, kind, body = found if isinstance(found, tuple) else (200, JSON, json.dumps(found).encode())
        head = h11.Response(status_code=status, headers=[("Content-Type", kind), ("Content-Length", str(len(body)))])
        for each in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.http.send(each) or b"")
        self.transport.close()


class Known:
    """A cluster whose brokers are known."""

    def __init__(self, world):
        self.world = world
        self.names = ["Fruit"]

    async def brokers(self):
        if not self.names:
            raise ConnectFailed("127.0.0.1:9876", "refused")
        return tuple(BrokerAddress(name, "apple", 0, "127.0.0.1:10911") for name in self.names)


class Site:
    """A history and its server."""

    def __init__(self, answer, environ=(), path="", own=None, tls=None, labels=()):
        self.answer = answer
        self.asked, self.open = [], set()
        self.clock = ManualClock(NOW_MS / 1000)
        self.world = attrs.evolve(real_world(), clock=self.clock, environ=dict(environ))
        self.cluster = Known(self.world)
        self.path, self.own, self.tls, self.labels = path, own or NoHistory(), tls, labels

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Server(self), "127.0.0.1", 0, ssl=self.tls)
        port = self.server.sockets[0].getsockname()[1]
        scheme, host = ("https", "localhost") if self.tls else ("http", "127.0.0.1")
        self.address = f"{scheme}://{host}:{port}{self.path}"
        options = PrometheusOptions.of("--prometheus", self.address, self.labels)
        self.history = PrometheusHistory(self.cluster, options, self.own)
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for each in list(self.open):
            each.abort()
        await self.world.workers.close()


def run(work, answer, **options):
    async def limited():
        async with asyncio.timeout(30), Site(answer, **options) as site:
            return await work(site)

    return asyncio.run(limited())


def success(*series):
    """An answer with series, each a pair of labels and values by time in ms."""
    result = [
        {"metric": labels, "values": [[at / 1000, str(value)] for at, value in values.items()]}
        for labels, values in series
    ]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


SCRAPED = success(({"__name__": "rocketmq_broker_tps"}, {NOW_MS - number * 15_000: 1.0 for number in range(20)}))


def answering(*series, scraped=SCRAPED):
    """Return the answers of a server that has *series*."""

    def answer(what, fields):
        if what == "query":
            return scraped if fields["query"].endswith("[5m]") else success()
        return success(*series)

    return answer


def times_of(window):
    """The times at which the points of a window are asked for: the ends of its steps."""
    return [at + window.step_ms for at in range(window.begin_ms, window.end_ms, window.step_ms)]


TIMES = times_of(WINDOW)
ALL = dict.fromkeys(TIMES, 1.0)
BROKERS = ({"word": "brokers"}, ALL)


def test_curves_have_the_values_at_their_times():
    lag = ({"word": "lag", "group": "billing"}, {TIMES[0]: 7.0, TIMES[5]: 12.25, TIMES[6]: "NaN"})
    late = ({"word": "late_s", "group": "billing"}, {TIMES[-1]: 3.0})

    async def work(site):
        found = await site.history.curves("group", "billing", WINDOW)
        curves = dict(zip(KINDS["group"], found.curves, strict=True))
        assert found.times == tuple(range(WINDOW.begin_ms, WINDOW.end_ms, STEP))
        assert [number for number, value in enumerate(curves["lag"].values) if value is not None] == [0, 5]
        assert (curves["lag"].values[5], curves["lag"].last_ms) == (12.25, TIMES[5])
        assert curves["late_s"].values[-1] == 3.0 and curves["late_s"].last_ms == NOW_MS
        assert curves["retries"].known == [] and len(curves["retries"].values) == len(found.times)
        assert found.rate_s == 60, "four scrapes"
        path, fields, headers = site.asked[-1]
        assert path == "/api/v1/query_range"
        assert (float(fields["start"]) * 1000, float(fields["end"]) * 1000) == (TIMES[0], TIMES[-1])
        assert fields["step"] == "15.000" and b"authorization" not in headers
        assert 'cluster=~"|Fruit"' in fields["query"] and 'group="billing"' in fields["query"]

    run(work, answering(BROKERS, lag, late))


def test_the_step_follows_the_time_between_scrapes():
    minutes = success(({}, {NOW_MS - number * 60_000: 1.0 for number in range(5)}))

    async def work(site):
        assert site.history.window(3_600_000, NOW_MS).step_ms == 15_000
        await site.history.curves("cluster", "", WINDOW)
        assert site.history.window(3_600_000, NOW_MS).step_ms == 60_000
        assert site.history.window(30 * 86_400_000, NOW_MS).step_ms == 3_600_000
        asked = len(site.asked)
        await site.history.curves("cluster", "", WINDOW)
        assert len(site.asked) == asked + 1, "it is asked for once in five minutes"
        assert "[91s]" in site.asked[-1][1]["query"] and "[240s]" in site.asked[-1][1]["query"]

    run(work, answering(BROKERS, scraped=minutes))


def test_a_step_that_is_not_over_has_the_value_of_the_same_period_up_to_now():
    window = Window(NOW_MS - 5 * STEP, NOW_MS + STEP, STEP)
    point = {"status": "success", "data": {"result": [{"metric": {"word": "in"}, "value": [NOW_MS / 1000, "9"]}]}}
    past = answering(({"word": "in"}, dict.fromkeys(times_of(window)[:-1], 4.0)))

    def answer(what, fields):
        return past(what, fields) if what == "query_range" or "[5m]" in fields["query"] else point

    async def work(site):
        found = await site.history.curves("cluster", "", window)
        assert found.curves[0].values == (4.0,) * 5 + (9.0,)
        assert found.curves[0].last_ms == NOW_MS
        assert float(site.asked[-1][1].get("time", site.asked[-2][1].get("time"))) * 1000 == NOW_MS

    run(work, answer)


def test_a_sum_without_one_of_the_brokers_is_a_gap():
    brokers = ({"word": "brokers"}, {at: 1.0 if 5 <= number < 9 else 2.0 for number, at in enumerate(TIMES)})
    orders = ({"word": "in", "topic": "Orders"}, dict.fromkeys(TIMES, 8.0))

    async def work(site):
        found = (await site.history.curves("topic", "Orders", WINDOW)).curves[0]
        assert [number for number, value in enumerate(found.values) if value is None] == [5, 6, 7, 8]

    run(work, answering(brokers, orders))


def test_a_broker_that_is_gone_for_long_is_not_missed_any_more():
    window = Window(NOW_MS - 100 * STEP, NOW_MS, STEP)
    times = times_of(window)
    brokers = ({"word": "brokers"}, {at: 2.0 if number < 10 else 1.0 for number, at in enumerate(times)})

    async def work(site):
        found = (await site.history.curves("cluster", "", window)).curves[0]
        gap = [number for number, value in enumerate(found.values) if value is None]
        assert gap == list(range(10, 50)), "ten minutes"

    run(work, answering(brokers, ({"word": "in"}, dict.fromkeys(times, 8.0))))


def test_an_idle_topic_has_a_rate_of_0_while_its_brokers_are_scraped():
    """Counters of a topic begin with its first message, and the first sample of a counter has no rate."""
    brokers = ({"word": "brokers"}, {at: 1.0 for number, at in enumerate(TIMES) if number != 3})
    orders = ({"word": "in", "topic": "Orders"}, dict.fromkeys(TIMES[10:], 8.0))

    async def work(site):
        found, out = (await site.history.curves("topic", "Orders", WINDOW)).curves
        assert found.values == (0.0,) * 3 + (None,) + (0.0,) * 5 + (None,) + (8.0,) * 10
        assert out.values == (0.0,) * 3 + (None,) + (0.0,) * 16

    run(work, answering(brokers, orders))


def test_the_rows_of_a_list_are_one_query_and_their_names_are_quoted():
    names = ["billing", 'a"b\\c', "x.y|z", "%RETRY%x"]

    async def work(site):
        found = await site.history.curve_of_each("group", names, "lag", WINDOW)
        assert found["x.y|z"].values[0] == 5.0 and set(found) == {"x.y|z"}
        assert len(site.asked) == 2, "with the one for the time between scrapes"
        query = site.asked[-1][1]["query"]
        assert r'group=~"%RETRY%x|a\"b\\\\c|billing|x\\.y\\|z"' in query
        assert await site.history.curve_of_each("group", [], "lag", WINDOW) == {}

    run(work, answering(BROKERS, ({"word": "lag", "group": "x.y|z"}, {TIMES[0]: 5.0})))


def test_brokers_and_slaves_have_their_own_curves():
    def of(number, value):
        return {"word": "disk", "broker": "apple", "broker_id": number}, dict.fromkeys(TIMES, value)

    async def work(site):
        assert (await site.history.curves("broker", "apple", WINDOW)).curves[2].values[0] == 50.0
        assert 'broker="apple",broker_id=~"0|"' in site.asked[-1][1]["query"]
        assert (await site.history.curves("broker", "apple:1", WINDOW)).curves[2].values[0] == 60.0
        assert 'broker="apple",broker_id=~"1"' in site.asked[-1][1]["query"]

    run(work, answering(of("0", 50.0), of("1", 60.0)))


def test_what_moved_is_the_first_and_the_last_value_of_all_subjects():
    hour = Window(NOW_MS - 3_600_000, NOW_MS, 10_000)
    at = [hour.begin_ms + number * 720_000 for number in range(6)]

    def lags(group, *values):
        return {"word": "lag", "group": group}, dict(zip(at, values, strict=False))

    async def work(site):
        found = await site.history.moved("group", "lag", hour)
        assert found == {"grows": (1.0, 9.0), "appeared": (2.0, 3.0)}
        fields = site.asked[-1][1]
        assert "group=" not in fields["query"] and fields["step"] == "720.000"
        assert (float(fields["start"]) * 1000, float(fields["end"]) * 1000) == (hour.begin_ms, NOW_MS)

    appeared = {"word": "lag", "group": "appeared"}, {at[3]: 2.0, at[5]: 3.0}
    brokers = ({"word": "brokers"}, dict.fromkeys(at, 1.0))
    run(work, answering(brokers, lags("grows", 1, 2, 3, 4, 5, 9), lags("same", *[4] * 6), appeared))


def test_it_begins_with_the_first_scrape():
    async def work(site):
        assert await site.history.known_since() == NOW_MS - 7_200_000
        assert await site.history.known_since() == NOW_MS - 7_200_000
        assert len(site.asked) == 1, "it is asked for once in five minutes"

    run(work, answering(({}, {NOW_MS - 7_200_000: 1.0, NOW_MS - 3_600_000: 1.0})))


def test_events_are_those_of_the_console():
    class Own(NoHistory):
        problem = "The disk is full."

        async def marks(self, window):
            return [Mark(NOW_MS - 1000, "elected", "broker", "apple")]

    async def work(site):
        assert [each.word for each in await site.history.marks(WINDOW)] == ["elected"]
        assert site.history.problem == "The disk is full."

    async def without(site):
        assert await site.history.marks(WINDOW) == []

    run(work, answering(), own=Own())
    run(without, answering())


def test_without_prometheus_own_samples_tell_what_moved():
    class Own(NoHistory):
        async def moved(self, kind, word, window, new=()):
            return {"billing": (0.0 if new else 1.0, 2.0)}

        async def known_since(self):
            return 17

    async def with_own(site):
        assert await site.history.moved("group", "lag", WINDOW) == {"billing": (1.0, 2.0)}
        assert await site.history.moved("group", "lag", WINDOW, ["billing"]) == {"billing": (0.0, 2.0)}
        assert await site.history.known_since() == 17
        with pytest.raises(HistoryUnavailable):
            await site.history.curves("group", "billing", WINDOW)

    async def without(site):
        for asked in (site.history.moved("group", "lag", WINDOW), site.history.known_since()):
            with pytest.raises(HistoryUnavailable, match="status 500"):
                await asked

    run(with_own, lambda *_: (500, "text/plain", b""), own=Own())
    run(without, lambda *_: (500, "text/plain", b""))


def test_labels_of_the_operator_are_in_each_query():
    async def work(site):
        await site.history.curves("topic", "Orders", WINDOW)
        await site.history.known_since()
        assert all('env="prod",site="a\\"b"' in fields["query"] for _, fields, _ in site.asked)

    run(work, answering(), labels=["env=prod", 'site=a"b'])


def test_the_name_of_the_cluster_is_needed_once():
    async def work(site):
        site.cluster.names = []
        with pytest.raises(HistoryUnavailable, match="name of the cluster.*no broker is registered"):
            await site.history.curves("cluster", "", WINDOW)
        site.cluster.names = ["Fruit", "Nuts"]
        await site.history.curves("cluster", "", WINDOW)
        site.cluster.names = []
        await site.history.curves("cluster", "", WINDOW)
        assert 'cluster=~"|Fruit|Nuts"' in site.asked[-1][1]["query"]

    run(work, answering())


def basic(user, password):
    return b"Basic " + base64.b64encode(f"{user}:{password}".encode())


@pytest.mark.parametrize(
    ("environ", "file", "expected"),
    [
        ({"USER": "ann", "PASSWORD": "s3cret"}, None, basic("ann", "s3cret")),
        ({"TOKEN": "abc.def"}, None, b"Bearer abc.def"),
        ({"TOKEN_FILE": "{}"}, "rotated\n", b"Bearer rotated"),
        ({"USER": "ann", "PASSWORD_FILE": "{}"}, "ü:x\n", basic("ann", "ü:x")),
    ],
)
def test_secrets_come_from_the_environment_or_a_file(environ, file, expected, tmp_path):
    (tmp_path / "secret").write_text(file or "", "utf-8")
    given = {f"{PREFIX}_{name}": value.format(tmp_path / "secret") for name, value in environ.items()}

    async def work(site):
        await site.history.curves("cluster", "", WINDOW)
        assert {headers[b"authorization"] for _, _, headers in site.asked} == {expected}
        assert site.asked[0][0].startswith("/prom/api/v1/")

    run(work, answering(), environ=given, path="/prom/")


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"TOKEN": "s3cret\nX-Other: 1"}, "The token for Prometheus, of $GANTRYMQ_CONSOLE_PROMETHEUS_TOKEN, has"),
        ({"TOKEN_FILE": "/nowhere/token"}, "_TOKEN_FILE, /nowhere/token, cannot be read: No such file"),
    ],
)
def test_a_secret_that_cannot_be_used_is_not_shown(environ, sentence):
    async def work(site):
        with pytest.raises(HistoryUnavailable, match=re.escape(sentence)) as found:
            await site.history.curves("cluster", "", WINDOW)
        assert "s3cret" not in str(found.value) and site.asked == []

    run(work, answering(), environ={f"{PREFIX}_{name}": value for name, value in environ.items()})


REFUSED = json.dumps({"status": "error", "errorType": "bad_data", "error": "too many\n samples" + "x" * 999}).encode()


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((401, "text/plain", b"Unauthorized"), "answers with status 401: set $GANTRYMQ_CONSOLE_PROMETHEUS_USER"),
        ((403, "text/html", b"<p>no"), "answers with status 403: set $GANTRYMQ_CONSOLE_PROMETHEUS_USER"),
        ((302, "text/html", b""), "answers with status 302, a redirection, which is not followed"),
        ((200, "text/html; charset=utf-8", b"<html>Grafana"), "status 200 and text/html: give the address before /api"),
        ((404, "text/plain", b"404 page not found"), "status 404 and text/plain: give the address before /api/v1"),
        ((200, JSON, b'{"status": "success"}'), "does not answer as Prometheus does"),
        ((200, JSON, b'[{"a": 1}]'), "does not answer as Prometheus does"),
        ((200, JSON, b'{"status": "success", "data": {"result": [{"metric": {}}]}}'), "does not answer as Prometheus"),
        (
            (200, JSON, b'{"status": "success", "data": {"result": [{"metric": 7, "value": [1, "1"]}]}}'),
            "does not answer",
        ),
        (
            (200, JSON, b'{"status": "success", "data": {"result": [{"metric": {"a": []}, "value": [1, 1]}]}}'),
            "does not",
        ),
        ((200, JSON, b'{"status": "success", "data": {"result": [{"metric": {}, "value": [NaN, 1]}]}}'), "does not"),
        ((200, JSON, b'{"status": "success", "data": {"result": [{"metric": {}, "value": [1e999, 1]}]}}'), "does not"),
        (
            (
                200,
                JSON,
                b'{"status": "success", "data": {"result": [{"metric": {}, "value": [1%s, 1]}]}}' % (b"0" * 400),
            ),
            "",
        ),
        ((200, JSON, b"[" * 1900), "does not answer as Prometheus does"),
        ((422, JSON, REFUSED), "refuses the query with status 422: too many samplesxxx"),
        ((422, JSON, b'{"status": "error", "error": "half \\ud800 a pair"}'), "with status 422: half ? a pair"),
        (
            (200, JSON, b'{"status": "success", "data": {"result": [{"metric": {"a": "\\ud800"}, "value": [1, 1]}]}}'),
            "does not answer",
        ),
        ((200, JSON, b" " * 3000), "cannot be read: the response has more than 2,000 bytes"),
    ],
)
def test_other_answers_are_one_sentence(answer, sentence, monkeypatch):
    monkeypatch.setattr(prometheus, "MOST_BYTES", 2000)

    async def work(site):
        found = await subject_history(site.history, site.clock, "topic", "Orders")
        where = site.address.removeprefix("http://")
        assert found.problem.startswith(f"Prometheus at {where} ") and sentence in found.problem
        assert len(found.problem) < 400 and found.problem.endswith(".") and "\n" not in found.problem
        assert found.is_empty and not found.is_off and found.origin == where

    run(work, lambda *_: answer)


def test_a_server_that_does_not_answer_is_not_waited_for_and_is_left_alone_for_a_while():
    async def work(site):
        asked = asyncio.ensure_future(subject_history(site.history, site.clock, "cluster", ""))
        await until(lambda: site.asked, "request", 20, poll_s=0.002)
        site.clock.advance(prometheus.TIMEOUT_S)
        assert "cannot be read: no response within 2 s" in (await asked).problem
        others = [subject_history(site.history, site.clock, "topic", f"T{number}") for number in range(50)]
        assert {each.problem for each in await asyncio.gather(*others)} == {(await asked).problem}
        assert len(site.asked) == 1
        site.answer = answering()
        site.clock.advance(15)
        assert (await subject_history(site.history, site.clock, "cluster", "")).problem == ""

    run(work, lambda *_: None)


def test_nobody_listens():
    async def work(site):
        site.server.close()
        with pytest.raises(HistoryUnavailable, match=r"cannot be read: .*[Cc]onnect") as caught:
            await site.history.curves("cluster", "", WINDOW)
        assert "Errno" not in str(caught.value)

    run(work, answering())


def test_https_needs_an_authority_that_is_known(tmp_path, monkeypatch):
    certificate = make_certificate(tmp_path, "p", "/CN=localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, str(tmp_path / "p.key"))

    async def unknown(site):
        with pytest.raises(HistoryUnavailable, match="certificate verify failed"):
            await site.history.curves("cluster", "", WINDOW)

    async def known(site):
        await site.history.curves("cluster", "", WINDOW)

    run(unknown, answering(), tls=context)
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    run(known, answering(), tls=context)


def test_no_more_than_four_requests_run_at_once():
    most = 0

    def answer(what, fields):
        nonlocal most
        most = max(most, len(site_of[0].open))
        return answering(BROKERS)(what, fields)

    site_of = []

    async def work(site):
        site_of.append(site)
        await asyncio.gather(*(site.history.curves("topic", f"T{number}", WINDOW) for number in range(40)))
        assert 1 <= most <= 6  # the server may see the end of a connection later

    run(work, answer)


@pytest.mark.parametrize(
    ("address", "labels"),
    [
        ("", []),
        ("ftp://x/", []),
        ("http://u:s3cret@x/", []),
        ("http://x:9090/?token=s3cret", []),
        ("http://x:9090/#s3cret", []),
        ("http://x:9090", ["env"]),
        ("http://x:9090", ["=prod"]),
        ("http://x:9090", ['a"b=c']),
        ("http://x:9090", ["cluster=Other"]),
    ],
)
def test_options_that_cannot_be_used_are_one_sentence(address, labels):
    with pytest.raises(ConfigError, match="--prometheus") as found:
        PrometheusOptions.of("--prometheus", address, labels)
    assert "s3cret" not in str(found.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--prometheus", "http://u:s3cret@x/"], "--prometheus: a name and password in the address are not supported"),
        (["--prometheus-label", "a=b"], "--prometheus-label is for series of Prometheus: add --prometheus URL"),
        (["--prometheus", "http://x:9090", "--login", "cluster"], "--prometheus shows its curves to everyone"),
    ],
)
def test_the_command_refuses_options_that_cannot_be_used(options, sentence, tmp_path):
    found = CliRunner().invoke(main, ["console", "-n", "127.0.0.1:1", "--state", str(tmp_path), *options])
    assert found.exit_code == 2 and sentence in found.output and "s3cret" not in found.output


def test_the_service_of_a_broker_reads_prometheus(gantrymq_broker_factory):
    settings = {"consoleListen": "127.0.0.1:0", "consolePrometheus": "http://127.0.0.1:1/prom"}
    running = gantrymq_broker_factory({**settings, "consolePrometheusLabels": "env=prod; site=a"})
    service = running.call(running.broker.service, "console")
    options = service._running.console.past._options
    assert (options.to.path, options.labels) == ("/prom", {"env": "prod", "site": "a"})
    with urllib.request.urlopen(service.url, timeout=20) as page:
        found = page.read().decode()
    assert "Prometheus cannot be asked: " in found, "no broker is registered in this process"
    assert "Curves are from" not in found


def test_a_setting_that_is_no_address_stops_the_start(gantrymq_broker_factory):
    with pytest.raises(ConfigError, match="consolePrometheus"):
        gantrymq_broker_factory({"consoleListen": "127.0.0.1:0", "consolePrometheus": "ftp://x"})
