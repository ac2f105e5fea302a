"""Features that this version does not implement are refused with a sentence, never accepted and ignored."""

import pytest
from harness import GantryServer, create_topic
from harness.probe import request
from not_built import TABLE, TOPIC, NotBuilt

pytestmark = pytest.mark.interop

SENDS = (10, 324)


@pytest.mark.parametrize("asked", TABLE, ids=lambda asked: asked.what)
def test_what_is_not_built_is_refused_with_a_sentence(ours: GantryServer, asked: NotBuilt) -> None:
    create_topic(ours.namesrv, TOPIC)
    body = b"body" if asked.request in SENDS else b""
    header, _ = request(ours.broker_address, asked.request, asked.ext, body)
    assert (header["code"], asked.says in header["remark"]) == (asked.code, True), header
