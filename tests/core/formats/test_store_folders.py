"""Folders of a store, and topics that can have one."""

import pytest

from gantrymq.formats.store_folders import can_be_folder


@pytest.mark.parametrize("topic", ["Orders", "%RETRY%G", "a.b", "..."])
def test_a_topic_names_a_folder(topic):
    assert can_be_folder(topic)


@pytest.mark.parametrize("topic", ["a/b", "a\\b", "a\0b", ".", ".."])
def test_a_topic_that_leads_elsewhere_does_not(topic):
    assert not can_be_folder(topic)
