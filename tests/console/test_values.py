"""Values of pages in JSON."""

import attrs
import pytest

from gantrymq_console.values import Long, optional_long, record_of, to_json


def test_a_record_takes_the_values_of_another_that_have_the_same_names():
    @attrs.frozen
    class Source:
        offset: int
        name: str
        unused: int = 0

        @property
        def label(self):
            return f"{self.name}!"

    @attrs.frozen
    class Shown:
        offset: Long | None = attrs.field(converter=optional_long)
        name: str
        label: str
        broker: str = ""

    found = record_of(Shown, Source(2**60, "a"), name="b")
    assert to_json(found) == {"offset": str(2**60), "name": "b", "label": "a!", "broker": ""}
    assert record_of(Shown, Source(None, "a")).offset is None
    with pytest.raises(TypeError, match="label"):
        record_of(Shown, object(), offset=1, name="a")
