import pytest

from gantrymq.errors import FormatError
from gantrymq_store_files.dropped_topics import pack_dropped_topic, read_dropped_topics


def test_what_is_packed_is_read():
    before = {"T": 0, "%RETRY%G": 1 << 40, "Thema-ä": 7, "\ud800": 8, '", ': 9}
    lines = b"".join(pack_dropped_topic(*each) for each in before.items())
    assert lines.splitlines()[0] == b'"T": 0,'
    assert read_dropped_topics(b"{\n" + lines[:-2] + b"\n}") == before


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"7", b'{"T": "x"}', b'{"T": null}', b'{"T": 1e400}', b"\xff", b"[" * 9999]
)
def test_something_else_is_refused(text):
    with pytest.raises(FormatError, match="not a JSON object of log offsets by topic"):
        read_dropped_topics(text)
