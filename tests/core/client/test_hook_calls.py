"""The copies of messages that hooks receive."""

import attrs

from gantrymq.client import Message
from gantrymq.client.tracing.hook_calls import copy_message

FULL = Message("T", b"x", "tag", ("k", "l"), 3, {"own": "1"}, False, 4, 5, 6, {"BUYER_ID": "b"})


def test_a_copy_has_every_field_and_an_id():
    plain = Message("", b"")
    assert all(getattr(FULL, field.name) != getattr(plain, field.name) for field in attrs.fields(Message))
    copy = copy_message(FULL, "ID")
    assert copy == attrs.evolve(FULL, system_properties={"UNIQ_KEY": "ID", "BUYER_ID": "b"})
    copy.properties["more"] = "2"
    copy.system_properties["more"] = "2"
    assert FULL.properties == {"own": "1"} and FULL.system_properties == {"BUYER_ID": "b"}


def test_an_id_that_is_there_stays():
    assert copy_message(Message("T", b"x", system_properties={"UNIQ_KEY": "MINE"}), "ID").system_properties == {
        "UNIQ_KEY": "MINE"
    }


def test_a_body_that_may_be_changed_is_copied():
    body = bytearray(b"abc")
    copy = copy_message(Message("T", body), "ID")
    body[0] = 0
    assert copy.body == b"abc"
