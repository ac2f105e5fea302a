import pytest

from gantrymq.client.decoding import received_from
from gantrymq.client.idempotency.identity import Identity, batch_mark, identity_of
from gantrymq.errors import InvalidParameter


@pytest.fixture
def received(record):
    """A message of a record with a property text, ``A=1;B=2``."""

    def make(text="", **more):
        pairs = [pair.replace("=", "\x01") + "\x02" for pair in text.split(";") if pair]
        (message,) = received_from(record(properties="".join(pairs).encode(), **more), "b")
        return message

    return make


def test_a_message_is_known_by_its_unique_id_whatever_its_place(received):
    first, second = received("UNIQ_KEY=U1", log_offset=1), received("UNIQ_KEY=U1", log_offset=2)
    assert identity_of(first) == identity_of(second) == Identity(("U1",))


def test_one_that_came_back_is_known_by_the_same_id(received):
    again = received("RETRY_TOPIC=Orders;ORIGIN_MESSAGE_ID=0A01;UNIQ_KEY=U1")
    assert identity_of(again) == Identity(("U1",), perhaps_of_batch=(batch_mark("U1"), "0A01"))


def test_messages_of_a_batch_are_known_by_their_own_id_and_place(received):
    one = received("UNIQ_KEY=U1;a=b;UNIQ_KEY=BATCH", log_offset=1)
    two = received("UNIQ_KEY=U2;UNIQ_KEY=BATCH", log_offset=2)
    assert one.message_id == two.message_id == "BATCH"
    assert identity_of(one) == Identity(("U1", one.offset_id), batch="BATCH")
    assert identity_of(two) == Identity(("U2", two.offset_id), batch="BATCH")


def test_one_of_a_batch_that_came_back_leads_to_the_place_of_the_first_delivery(received):
    first = received("UNIQ_KEY=U1;UNIQ_KEY=BATCH", log_offset=7)
    again = received(f"ORIGIN_MESSAGE_ID={first.offset_id};UNIQ_KEY=BATCH", log_offset=900)
    assert identity_of(again).perhaps_of_batch == (batch_mark("BATCH"), first.offset_id)
    assert first.offset_id in identity_of(first).keys


def test_a_copy_that_a_client_sent_names_the_batch_and_is_known_by_its_own_place(received):
    copy = received("RETRY_TOPIC=Orders;ORIGIN_MESSAGE_ID=BATCH;UNIQ_KEY=BATCH", log_offset=5)
    assert identity_of(copy).perhaps_of_batch == (batch_mark("BATCH"), copy.offset_id)


def test_without_a_unique_id_the_place_counts_that_of_the_first_delivery(received):
    message = received(log_offset=5)
    assert identity_of(message) == Identity((message.offset_id,))
    assert identity_of(received("ORIGIN_MESSAGE_ID=0A01", log_offset=9)) == Identity(("0A01",))


def test_the_application_may_say_by_what(received):
    assert identity_of(received("KEYS=order-7;UNIQ_KEY=U1"), lambda message: message.keys) == Identity(("order-7",))


@pytest.mark.parametrize(
    ("key", "what"), [("", "0 characters"), ("x" * 256, "256 characters"), (7, "7"), (None, "None")]
)
def test_what_is_no_key_is_refused(received, key, what):
    with pytest.raises(InvalidParameter, match=f"{what}; expected text of 1 to 255"):
        identity_of(received("UNIQ_KEY=U1"), lambda _: key)
