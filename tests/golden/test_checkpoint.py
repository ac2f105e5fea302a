"""Every golden checkpoint against the log and index of its store."""

import pytest
from golden_stores import SCENARIOS

from gantrymq_store_files.checkpoint import decode_checkpoint, encode_checkpoint

NOT_FLUSHED = ("crash/killed", "crash/torn")  # killed before the first thorough flush; zeroed by us
RECOVERED = ("crash/recovered", "crash/torn-recovered", "cleaned/rebuilt")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_checkpoint_is_written_as_it_was_read(golden, name):
    data = (golden(name).store / "checkpoint").read_bytes()
    assert encode_checkpoint(decode_checkpoint(data)) == data


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in NOT_FLUSHED])
def test_a_clean_stop_leaves_the_store_time_of_the_newest_record(golden, name):
    scenario = golden(name)
    checkpoint = decode_checkpoint((scenario.store / "checkpoint").read_bytes())
    newest = scenario.log_records()[-1].store_timestamp
    if name == "transaction":  # its newest record was written after the last thorough flush
        assert 0 < checkpoint.log_timestamp < newest
    else:
        assert checkpoint.log_timestamp == newest
    assert checkpoint.queue_timestamp == (0 if name == "v550" else newest)


def test_after_a_kill_only_the_queues_are_ahead(golden):
    checkpoint = decode_checkpoint((golden("crash/killed").store / "checkpoint").read_bytes())
    assert checkpoint.log_timestamp == 0
    assert checkpoint.queue_timestamp > 0
    assert checkpoint.recovery_timestamp() == 0


@pytest.mark.parametrize("name", RECOVERED)
def test_a_recovery_leaves_the_start_of_the_record_that_was_last_then(golden, name):
    scenario = golden(name)
    checkpoint = decode_checkpoint((scenario.store / "checkpoint").read_bytes())
    assert checkpoint.confirmed_offset in {record.log_offset for record in scenario.log_records()}
