"""Previews of changes: each has a way back to the page that it came from."""

from __future__ import annotations

import re

import pytest

from gantrymq_console.running import SECTIONS

PREVIEWS = {
    "/new/topic": ("/new/topic", {"topic": "Other", "read_queues": "1"}),
    "/topics/{topic}/settings": ("/topics/Orders/settings", {"read_queues": "3", "write_queues": "3"}),
    "/topics/{topic}/delete": ("/topics/Orders/settings", {}),
    "/new/group": ("/new/group", {"group": "Other"}),
    "/groups/{group}/settings": ("/groups/billing/settings", {"retry_max_times": "3"}),
    "/groups/{group}/stop": ("/groups/billing/settings", {}),
    "/groups/{group}/delete": ("/groups/billing/settings", {}),
    "/groups/{group}/clone": ("/groups/billing/offsets", {"clone": "Other"}),
    "/groups/{group}/delete-offsets": ("/groups/billing/offsets", {"topic": "Orders"}),
    "/bulk/groups/reset": ("/bulk/groups", {"scope": "page", "target": "first"}),
    "/messages/{id}/direct": ("/messages/{id}?topic=Orders", {"group": "billing"}),
    "/brokers/{broker}/settings/{key}": ("/brokers/broker-a/settings/brokerPermission", {"value": "4"}),
    "/brokers/{broker}/permission": ("/brokers/broker-a", {}),
    "/brokers/{broker}/clean": ("/brokers/broker-a", {}),
    "/nameservers/settings/{key}": ("/nameservers/settings/listenPort", {"value": "1"}),
    "/nameservers/kv": ("/nameservers?namespace=ORDER_TOPIC_CONFIG", {"key": "a", "value": "b"}),
}
# Two forms with one address on a page, or a form that needs something waiting; tests of these parts send them.
NOT_TRIED = {
    "/brokers/{broker}/dismiss",
    "/brokers/{broker}/master",
    "/definitions/import",
    "/brokers/{broker}/forget",
    "/bulk/groups/allow",
    "/bulk/groups/delete",
    "/bulk/groups/stop",
    "/groups/{group}/allow",
    "/groups/{group}/offsets",
    "/groups/{group}/dlq/resend",
    "/messages/{id}/again",
    "/delayed/recall",
    "/transactions/resume",
    "/search/everywhere",
    "/topics/{topic}/send",  # sends without a question
}


@pytest.fixture
def filled(visitor):
    async def consume(queue):
        async with visitor.running.cluster.consumer("billing") as consumer:
            await consumer.commit(queue, 1)

    sent = visitor.running.send("Orders", b"1")
    visitor.running.run(consume(sent.queue))
    visitor.id = sent.message_id
    return visitor


@pytest.mark.parametrize("path", PREVIEWS)
def test_cancel_leads_back_to_the_page_with_the_form(filled, path):
    came_from, fields = PREVIEWS[path]
    came_from = came_from.replace("{id}", filled.id)
    page = filled.get(came_from)
    assert page.status == 200, page.text
    last = path.rpartition("}")[2] or "/" + came_from.rpartition("/")[2]
    preview = filled.submit(page, last if last != "/" else path, **fields)
    assert preview.status == 200 and "confirm" in preview.response.text, preview.text
    assert left_to(preview) == came_from
    again = filled.confirm(preview, seen="0")  # the numbers differ: the preview is shown again
    assert (again.status, left_to(again)) == (409, came_from)


def left_to(preview):
    """Return the page to which "Cancel" leads, without the parameter that names the kept form."""
    return re.sub(r"[?&]kept=\w+$", "", preview.link("Cancel").removeprefix("http://127.0.0.1:8088"))


def test_every_action_with_a_preview_is_tried():
    known = {each.path for section in SECTIONS for each in section.actions if each.preview is not None}
    assert known == PREVIEWS.keys() | NOT_TRIED


def test_cancel_stays_in_the_console(filled):
    form = filled.get("/new/topic").form("/new/topic")
    for elsewhere in ("https://example.com/x", "//example.com/x", "javascript:alert(1)", "../../x"):
        preview = filled.post("/new/topic", {**form.fields, "topic": "Other", "read_queues": "1", "back": elsewhere})
        assert preview.link("Cancel").startswith("http://127.0.0.1:8088/")
