"""The filter type PREFIX keeps the contract of filters."""

from gantrymq_example.prefix import PrefixFilter
from gantrymq_testing import FilterContract


class TestPrefixContract(FilterContract):
    make_filter = PrefixFilter
    verdicts = (
        ("*", {}, True),
        ("*", {"colour": "red"}, True),
        ("colour=bl", {"colour": "blue"}, True),
        ("colour=bl", {"colour": "black"}, True),
        ("colour=bl", {"colour": "bl"}, True),
        ("colour=bl", {"colour": "red"}, False),
        ("colour=bl", {"colour": "Blue"}, False),
        ("colour=bl", {"shape": "blob"}, False),
        ("colour=bl", {}, False),
        ("colour=", {"colour": "red"}, True),
        ("colour=", {}, False),
        (" colour =a=b", {"colour": "a=bc"}, True),
    )
    refused = ("", "colour", "=blue", " =blue")
