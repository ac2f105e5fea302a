"""The program of docs/client/admin.md, with a broker in a separate process."""

import re

from test_examples import finished


def test_the_example_of_administration(servers):
    lines = finished("client/admin", servers.namesrv)
    counts = [int(re.fullmatch(r"queue \d: (\d) messages, the last at \d\d:\d\d", line)[1]) for line in lines[:2]]
    assert sum(counts) == 6
    assert lines[2:] == ["archive skips 6 messages", "archive has a lag of 0", "found invoice 3 by its key"]
