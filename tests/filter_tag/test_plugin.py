"""What the distribution gantrymq-filter-tag registers."""

from gantrymq_filter_tag import plugin


class Registry:
    def __init__(self):
        self.added = {}

    def add(self, name, factory):
        self.added[name] = factory


def test_offers_the_type_under_the_name_that_clients_send():
    registry = Registry()
    plugin.gantry_register_filters(registry)
    assert {name: factory().name for name, factory in registry.added.items()} == {"TAG": "TAG"}
