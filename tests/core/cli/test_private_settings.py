"""Settings files with a secret of accounts must not be accessible to other users of the machine."""

import json
import sys

import pytest

from gantrymq.cli.server_settings import ServerArguments, broker_settings, name_server_settings
from gantrymq.errors import ConfigError
from gantrymq.world.real import real_world

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")

LINE = f"innerClientAuthenticationCredentials={json.dumps({'accessKey': 'inner', 'secretKey': 'the-secret'})}\n"


def read(path, function):
    return function(real_world(), ServerArguments("gantrymq test", file=path)).settings


@pytest.mark.parametrize("function", [broker_settings, name_server_settings])
@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602])
def test_a_file_that_others_can_access_is_refused(tmp_path, function, mode):
    path = tmp_path / "server.conf"
    path.write_text(f"# a comment\n{LINE}")
    path.chmod(mode)
    with pytest.raises(
        ConfigError, match=rf"server.conf line 2: .*\(mode {mode:04o}\); run: chmod o= {path}"
    ) as raised:
        read(path, function)
    assert "the-secret" not in str(raised.value)


@pytest.mark.parametrize("function", [broker_settings, name_server_settings])
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640])
def test_a_file_of_the_user_or_its_group_is_read(tmp_path, function, mode):
    path, link = tmp_path / "server.conf", tmp_path / "link.conf"
    path.write_text(LINE)
    path.chmod(mode)
    link.symlink_to(path)
    for each in (path, link):
        assert "the-secret" in read(each, function).text("innerClientAuthenticationCredentials")


def test_other_files_may_be_read_by_all(tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=a\ninnerClientAuthenticationCredentials=\n")
    path.chmod(0o644)
    assert read(path, broker_settings).text("brokerName") == "a"


def test_the_secret_is_neither_shown_nor_sent_to_operators(tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text(LINE)
    path.chmod(0o600)
    settings = read(path, broker_settings)
    assert (
        "the-secret" not in str(settings.as_dict()) and "innerClientAuthenticationCredentials" not in settings.shown()
    )
