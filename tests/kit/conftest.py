"""A broker with a filter type whose behaviour a test sets."""

import pytest

from gantrymq.errors import SubscriptionParseFailed
from gantrymq.hooks import hookimpl

TOPIC = "T"


class Doing:
    """Accepts messages whose body contains the expression, after running the function set on the type."""

    accepts_all = False
    needs_message = True

    def __init__(self, expression, kind):
        self.expression, self.kind = expression.encode(), kind

    def match_entry(self, tags_code, ext):
        return True

    def match_message(self, record):
        self.kind.before(record)
        return self.expression in bytes(record.body)


class Contains:
    """The filter type CONTAINS; ``*`` accepts everything."""

    name = "CONTAINS"
    compiled = 0

    def before(self, record):
        """Does nothing, until a test sets another function."""

    def compile(self, subscription):
        if subscription.expression == "?":
            raise SubscriptionParseFailed("place 0: a question mark is no text")
        self.compiled += 1
        return Doing(subscription.expression, self)


class Plugin:
    """Registers one instance, which the test holds."""

    def __init__(self):
        self.kind = Contains()

    @hookimpl
    def gantry_register_filters(self, registry):
        registry.add("CONTAINS", lambda: self.kind)


class Served:
    """A broker of this process with the type CONTAINS."""

    def __init__(self, factory, settings=None):
        plugin = Plugin()
        self.running = factory({"store": "memory", **(settings or {})}, [("contains", plugin)])
        self.kind = plugin.kind

    def send(self, *bodies):
        for body in bodies:
            self.running.send(TOPIC, body.encode(), tags=body[:1].upper())

    def pull(self, expression="*", kind="TAG"):
        """Bodies that a subscription gets, from all queues."""
        return sorted(each.body.decode() for each in self.running.pull(TOPIC, expression, kind))

    def shown(self, name):
        figures = {each.name: each for each in self.running.call(self.running.broker.metrics.snapshot).plugin_metrics}
        return dict(figures[f"gantrymq_custom_filter{name}"].values)


@pytest.fixture
def serve(gantrymq_broker_factory):
    """Start a broker with settings."""
    return lambda **settings: Served(gantrymq_broker_factory, settings)


@pytest.fixture
def served(serve):
    return serve()
