import pytest

from gantrymq.client.calls.decoding import decode_messages
from gantrymq.client.idempotency.records import MessageIdentity, identity_of
from gantrymq.errors import InvalidParameter
from gantrymq.formats.batch_body import BatchEntry, encode_batch


@pytest.fixture
def received(record):
    """A message of a record with a property text, ``A=1;B=2``."""

    def make(text="", **more):
        pairs = [pair.replace("=", "\x01") + "\x02" for pair in text.split(";") if pair]
        (message,) = decode_messages(record(properties="".join(pairs).encode(), **more), "b")
        return message

    return make


def place_of(message):
    return f"{message.offset_id}.{message.born_timestamp}"


def duplicates(first, second):
    """Whether one is found after the other was recorded, by key and place."""
    return not set(first[:2]).isdisjoint(second.names)


def test_a_message_is_known_by_its_unique_id_whatever_its_place(received):
    first, second = received("UNIQ_KEY=U1", log_offset=1), received("UNIQ_KEY=U1", log_offset=2)
    assert identity_of(first) == MessageIdentity("U1", place_of(first))
    assert duplicates(identity_of(first), identity_of(second))


def test_one_that_came_back_leads_to_the_place_of_the_first_delivery(received):
    first = received("UNIQ_KEY=U1", log_offset=1)
    again = received(f"RETRY_TOPIC=Orders;ORIGIN_MESSAGE_ID={first.offset_id};UNIQ_KEY=U1", log_offset=900)
    assert identity_of(again) == MessageIdentity(place_of(first), place_of(first), "U1", redelivered=True)
    assert duplicates(identity_of(first), identity_of(again))
    assert duplicates(identity_of(again), identity_of(first))
    known = identity_of(again).with_key("U1")
    assert duplicates(known, identity_of(received("UNIQ_KEY=U1", log_offset=5)))


def test_messages_of_a_batch_are_known_by_their_own_ids(received):
    one = received("UNIQ_KEY=U1;a=b;UNIQ_KEY=BATCH", log_offset=1)
    two = received("UNIQ_KEY=U2;UNIQ_KEY=BATCH", log_offset=2)
    assert one.message_id == two.message_id == "BATCH"
    assert identity_of(one) == MessageIdentity("U1", place_of(one))
    assert not duplicates(identity_of(one), identity_of(two))
    back = [
        received(f"ORIGIN_MESSAGE_ID={each.offset_id};UNIQ_KEY=BATCH", log_offset=900 + each.log_offset)
        for each in (one, two)
    ]
    assert duplicates(identity_of(one), identity_of(back[0]))
    assert not duplicates(identity_of(one), identity_of(back[1]))
    assert not duplicates(identity_of(back[0]), identity_of(back[1]))


def test_a_copy_that_a_client_sent_names_the_batch_and_is_known_by_its_own_place(received):
    copy = received("RETRY_TOPIC=Orders;ORIGIN_MESSAGE_ID=BATCH;UNIQ_KEY=BATCH", log_offset=5)
    assert identity_of(copy) == MessageIdentity(place_of(copy), place_of(copy), "BATCH", redelivered=True)


def test_a_log_that_begins_anew_has_other_messages_at_the_same_places(received):
    old = received("UNIQ_KEY=U1", log_offset=1, born_timestamp=1000)
    new = received("UNIQ_KEY=U2", log_offset=1, born_timestamp=2000)
    assert old.offset_id == new.offset_id
    assert not duplicates(identity_of(old), identity_of(new))


def test_messages_of_one_record_have_places_of_their_own(record):
    entries = [BatchEntry(0, b"x", f"UNIQ_KEY\x01U{n}\x02".encode()) for n in range(3)]
    found = [identity_of(each) for each in decode_messages(record(body=encode_batch(entries), sys_flag=0xC0), "b")]
    assert [each.key for each in found] == ["U0", "U1", "U2"]
    assert len({each.place for each in found}) == 3


def test_without_a_unique_id_the_place_counts_that_of_the_first_delivery(received):
    message = received(log_offset=5)
    assert identity_of(message) == MessageIdentity(place_of(message), place_of(message))
    again = received(f"ORIGIN_MESSAGE_ID={message.offset_id}", log_offset=9)
    assert duplicates(identity_of(message), identity_of(again))


def test_the_application_may_say_by_what(received):
    message = received("KEYS=order-7;UNIQ_KEY=U1")
    assert identity_of(message, lambda message: message.keys) == MessageIdentity("order-7", "order-7")


def test_a_popped_message_needs_a_key_of_the_application(received):
    popped = received("UNIQ_KEY=U1;POP_CK=0 1700000000000 60000 0 0 b 0 7")
    with pytest.raises(InvalidParameter, match="give idempotent a key"):
        identity_of(popped)
    assert identity_of(popped, lambda message: message.message_id) == MessageIdentity("U1", "U1")


@pytest.mark.parametrize(
    ("key", "what"), [("", "0 characters"), ("x" * 256, "256 characters"), (7, "7"), (None, "None")]
)
def test_what_is_no_key_is_refused(received, key, what):
    with pytest.raises(InvalidParameter, match=f"{what}; expected text of 1 to 255"):
        identity_of(received("UNIQ_KEY=U1"), lambda _: key)
