"""Receipt handles of popped messages."""

from __future__ import annotations

import pytest

from gantrymq.errors import ClientError, MessageIllegal, ReceiptIllegal
from gantrymq.model.receipt import Receipt, kind_of_topic, read_receipt

TEXT = "10 1700 60000 3 1 a 2 12"


def test_a_text_both_ways_with_and_without_the_log_offset():
    receipt = read_receipt(TEXT)
    assert receipt == Receipt(10, 1700, 60000, 3, "1", "a", 2, 12, None)
    assert str(receipt) == TEXT
    assert read_receipt(f"{TEXT} 4096").log_offset == 4096
    assert str(receipt._replace(log_offset=0)) == f"{TEXT} 0"
    assert read_receipt(f"{TEXT} 0 4096 more") == receipt._replace(log_offset=0)  # Java's proxy writes ten parts, too
    assert read_receipt(TEXT.removesuffix(" 12"), queue_offset=7) == receipt._replace(queue_offset=7)
    assert read_receipt(TEXT, queue_offset=7) == receipt


def test_the_topic_that_stores_the_message():
    receipt = read_receipt(TEXT)
    topics = [receipt._replace(kind=kind).topic("T", "G") for kind in "012"]
    assert topics == ["T", "%RETRY%G_T", "%RETRY%G+T"]
    assert [kind_of_topic(each) for each in topics] == ["0", "1", "2"]


def test_it_expires_at_the_end_of_the_invisible_time():
    receipt = read_receipt(TEXT)
    assert [receipt.is_expired(now) for now in (61_699, 61_700, 99_999)] == [False, True, True]


def test_a_changed_invisible_time_makes_a_new_receipt():
    assert str(read_receipt(f"{TEXT} 4096").changed(1800, 500, 4)) == "12 1800 500 4 1 a 2 12 4096"
    assert str(read_receipt("10 1700 60000 999 0 a 2 12").changed(1700, 500, 999)) == "10 1700 500 999 0 a 2 12"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "10 1700 60000 3 1 a 2",
        "x 1700 60000 3 1 a 2 12",
        "10 1700 60000 3 9 a 2 12",
        "10 1700 60000 3 1 a x 12",
        "10 1700 60000 3 1 a 2 x",
        f"{TEXT} x",
        "-1 1700 60000 3 1 a 2 12",
        f"10 {2**63} 0 3 1 a 2 12",
        f"10 {2**62} {2**62} 3 1 a 2 12",
        "٠ 1700 60000 3 1 a 2 12",
    ],
)
def test_a_text_that_is_none(text):
    with pytest.raises(ReceiptIllegal, match="cannot be read.*pass on POP_CK as the message had it"):
        read_receipt(text)


def test_a_text_that_is_too_long_is_not_kept():
    with pytest.raises(ReceiptIllegal, match="it has 1000026 characters, at most 1024 are taken") as error:
        read_receipt(f"{TEXT} 1 {'x' * 999_999}")
    assert len(str(error.value)) < 300
    assert isinstance(error.value, MessageIllegal)
    assert isinstance(error.value, ClientError)
