"""Logs of a server's process."""

import logging

import click
import pytest

from gantrymq.cli.server_process import set_up_logs


@pytest.fixture
def root_logger():
    """The root logger, which `same_root_logger` restores."""
    return logging.getLogger()


def test_logs_go_to_stderr_from_the_level_on(root_logger, capsys):
    root_logger.handlers[:] = []
    set_up_logs("warning", None)
    logging.getLogger("gantrymq.example").info("unheard")
    logging.getLogger("gantrymq.example").warning("heard")
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors.endswith("WARNING gantrymq.example: heard\n")
    assert "unheard" not in errors


def test_a_log_file_that_was_moved_away_is_opened_again(root_logger, tmp_path):
    root_logger.handlers[:] = []
    path = tmp_path / "broker.log"
    set_up_logs("info", str(path))
    logging.getLogger("gantrymq.example").info("first")
    path.rename(tmp_path / "broker.log.1")
    logging.getLogger("gantrymq.example").info("second")
    assert "second" in path.read_text()
    assert "first" in (tmp_path / "broker.log.1").read_text()


def test_a_log_file_that_cannot_be_opened_is_wrong_usage(tmp_path):
    with pytest.raises(click.BadParameter, match="cannot open"):
        set_up_logs("info", str(tmp_path / "missing" / "broker.log"))
