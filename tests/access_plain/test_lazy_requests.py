"""The request codes that the plugin registers are those of its handlers, which are imported later."""

from gantrymq.plugin.remoting import handlers_of
from gantrymq_access_plain.requests import PlainRequests
from gantrymq_access_plain.service import REQUESTS


def test_each_handler_is_registered():
    assert set(handlers_of(PlainRequests)) == set(REQUESTS)
