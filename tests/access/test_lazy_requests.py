"""The request codes that the plugin registers are those of its handlers, which are imported later."""

from gantrymq.plugin.remoting import handlers_of
from gantrymq_access.requests import AccessRequests
from gantrymq_access.service import REQUESTS


def test_each_handler_is_registered():
    assert set(handlers_of(AccessRequests)) == set(REQUESTS)
