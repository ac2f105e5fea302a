import pytest

from gantrymq_store_files.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint


def test_a_checkpoint_has_the_documented_bytes():
    raw = encode_checkpoint(Checkpoint(1700000000123, 1700000000123))
    assert raw[:40].hex() == "0000018bcfe5687b" * 2 + "0000000000000000" * 3
    assert raw[40:] == bytes(4056)
    assert decode_checkpoint(raw) == Checkpoint(1700000000123, 1700000000123, 0, 0, 0)


@pytest.mark.parametrize("raw", [b"", bytes(39), b"\x7f" * 39])
def test_a_file_too_short_counts_as_absent(raw):
    assert decode_checkpoint(raw) == Checkpoint()


def test_recovery_starts_three_seconds_before_the_older_time():
    assert Checkpoint(10_000, 9_000, 1).recovery_timestamp() == 6_000
    assert Checkpoint(2_000, 9_000).recovery_timestamp() == 0


def test_a_checkpoint_ahead_of_the_newest_record_is_told_and_brought_down():
    found = Checkpoint(log_timestamp=9000, queue_timestamp=8000, confirmed_offset=7)
    assert not found.ahead_of(5000)
    assert found.ahead_of(4999)
    assert found.up_to(8500) == Checkpoint(8500, 8000, confirmed_offset=7)
