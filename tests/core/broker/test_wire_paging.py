"""Pages of the topic and group tables."""

from __future__ import annotations

import pytest

from gantrymq.broker.wire.responses import MAX_PAGE, page
from gantrymq.errors import InvalidParameter
from gantrymq.loose_json import dumps
from gantrymq.model.data_version import DataVersion

TABLE = [f"T{number:04}" for number in range(5000)]
VERSION = DataVersion(3, 0, 7)
SEEN = dumps(VERSION.to_json()).decode()


def test_pages_follow_each_other():
    first, total = page(TABLE, 0, 100, None, VERSION)
    second, _ = page(TABLE, 100, 100, SEEN, VERSION)
    assert total == 5000
    assert [*first, *second] == TABLE[:200]


@pytest.mark.parametrize("most", [None, 0, 100_000])
def test_no_page_is_longer_than_the_limit(most):
    assert len(page(TABLE, 0, most, None, VERSION)[0]) == MAX_PAGE


def test_who_saw_another_version_begins_again():
    other = dumps(DataVersion(2, 0, 7).to_json()).decode()
    assert page(TABLE, 100, 10, other, VERSION)[0][0] == "T0000"


def test_behind_the_end_there_is_nothing():
    assert page(TABLE, 5000, 10, SEEN, VERSION) == ([], 5000)


@pytest.mark.parametrize(("start", "most", "seen"), [(-1, 1, None), (0, -1, None), (1, 1, "no json")])
def test_a_page_that_cannot_be_is_refused(start, most, seen):
    with pytest.raises(InvalidParameter):
        page(TABLE, start, most, seen, VERSION)
