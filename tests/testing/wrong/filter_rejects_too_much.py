"""A filter whose first stage judges by the tag, although only the property decides, and so loses messages."""

from gantrymq.model.java import string_hash
from gantrymq_testing import FilterContract


class OneColour:
    accepts_all = False
    needs_message = True

    def __init__(self, colour):
        self.colour = colour

    def match_entry(self, tags_code, ext):
        return tags_code in (0, string_hash(self.colour))

    def match_message(self, record):
        return record.properties.get("colour") == self.colour


class ColourFilter:
    name = "COLOUR"

    def compile(self, subscription):
        return OneColour(subscription.expression)


class TestColourFilter(FilterContract):
    make_filter = ColourFilter
    verdicts = (
        ("red", {"colour": "red"}, True),
        ("red", {"colour": "red", "TAGS": "red"}, True),
        ("red", {"colour": "red", "TAGS": "TagA"}, True),  # the first stage rejects this one
        ("red", {"colour": "blue", "TAGS": "red"}, False),
    )
