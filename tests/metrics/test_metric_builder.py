"""Lines of Prometheus text."""

import math
from types import SimpleNamespace

from scraping import Figures

from gantrymq_metrics.metric_builder import MetricBuilder
from gantrymq_metrics.send_times import SendTimes


def read(make_family, cluster="C", broker="b", broker_id=0):
    """The figures of one family, read by Prometheus's parser."""
    figures = SimpleNamespace(cluster=cluster, broker=broker, broker_id=broker_id)
    made = make_family(MetricBuilder(SimpleNamespace(figures=figures)))
    return Figures((made.head + "".join(made.lines)).encode())


def test_names_with_quotes_line_ends_and_percent_signs_do_not_break_the_text():
    odd = 'a"b\\c\nd%s{}'
    figures = read(
        lambda make: make.gauge("gantrymq_x", "X\n\\.", ("topic",), [((odd,), 1)]), cluster="50%", broker=odd
    )
    assert figures("gantrymq_x", topic=odd, broker=odd, cluster="50%") == 1
    assert figures.families["gantrymq_x"].documentation == "X\n\\."


def test_numbers_are_read_as_they_were():
    numbers = (0, True, 2**53, 0.1, 1e-7, 1e22, math.inf)
    figures = read(lambda make: make.gauge("gantrymq_x", "X.", ("n",), [((str(n),), n) for n in numbers]))
    assert [sample.value for sample in figures.samples] == list(numbers)


def test_labels_of_the_broker_depend_on_the_origin_of_the_name():
    gauges = {
        ("gantrymq_x", False): {"cluster": "C", "broker": "b", "broker_id": "2"},
        ("rocketmq_x", True): {"cluster": "C", "broker": "b", "broker_id": "2"},
        ("rocketmq_x", False): {"cluster": "C", "node_type": "broker", "node_id": "b", "broker_id": "2"},
    }
    for (name, as_exporter), labels in gauges.items():
        figures = read(
            lambda make, n=name, e=as_exporter: make.gauge(n, "X.", (), [((), 1)], as_exporter=e), broker_id=2
        )
        assert [sample.labels for sample in figures.samples] == [labels]


def test_a_histogram_has_buckets_a_count_and_a_sum():
    times = SendTimes()
    times.acknowledged(3, 0.002)
    times.acknowledged(1, 60.0)
    figures = read(lambda make: make.histogram("gantrymq_s", "S.", times.histogram()))
    assert figures.families["gantrymq_s"].type == "histogram"
    assert figures("gantrymq_s_bucket", le="0.001") == 0
    assert figures("gantrymq_s_bucket", le="0.0025") == 3
    assert figures("gantrymq_s_bucket", le="+Inf") == figures("gantrymq_s_count") == 4
    assert figures("gantrymq_s_sum") == 60.006
