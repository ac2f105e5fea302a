import contextlib
import errno

import pytest

from gantrymq.errors import FormatError
from gantrymq.formats.config import backup_of, broken_of, load, save
from gantrymq.world.real import RealFiles
from gantrymq_testing.recording import RecordingFiles


@pytest.fixture
def path(tmp_path):
    return tmp_path / "config" / "topics.json"


@pytest.fixture
def said():
    return []


class FailingFiles(RealFiles):
    """Writes fail from the nth call on, as when the process ends there."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def _count(self):
        self.calls -= 1
        if self.calls < 0:
            raise OSError(errno.EIO, "stopped here")

    def rename(self, old, new):
        self._count()
        super().rename(old, new)

    def replace(self, path, data):
        self._count()
        super().replace(path, data)


def test_what_was_saved_is_loaded(path, said):
    save(RealFiles(), path, '{"a":1}')
    assert load(RealFiles(), path, said.append) == {"a": 1}
    assert said == []
    assert sorted(each.name for each in path.parent.iterdir()) == ["topics.json"]


def test_the_text_before_becomes_the_backup(path):
    for text in ('{"a":1}', '{"a":2}', '{"a":3}'):
        save(RealFiles(), path, text)
    assert (path.read_text(), backup_of(path).read_text()) == ('{"a":3}', '{"a":2}')


def test_nothing_there_is_none(path, said):
    assert load(RealFiles(), path, said.append) is None
    path.parent.mkdir()
    path.write_text("")
    assert load(RealFiles(), path, said.append) is None
    assert said == []


@pytest.mark.parametrize("text", [None, "", "\n ", "\0\0\0\0"])
def test_a_missing_or_empty_file_is_read_from_its_backup(path, said, text):
    save(RealFiles(), path, '{"a":1}')
    save(RealFiles(), path, '{"a":2}')
    path.unlink()
    if text is not None:
        path.write_text(text)
    assert load(RealFiles(), path, said.append) == {"a": 1}
    (sentence,) = said
    assert "topics.json.bak" in sentence


@pytest.mark.parametrize("text", ['{"a":', "[1]", "\x01\x02"])
def test_a_broken_file_is_put_aside_and_its_backup_read(path, said, text):
    save(RealFiles(), path, '{"a":1}')
    save(RealFiles(), path, '{"a":2}')
    path.write_text(text)
    assert load(RealFiles(), path, said.append) == {"a": 1}
    assert broken_of(path).read_text() == text
    assert "topics.json.broken" in said[0]
    save(RealFiles(), path, '{"a":3}')
    assert backup_of(path).read_text() == '{"a":1}'  # the good one, not the broken text


def test_a_broken_file_without_a_backup_counts_as_never_saved(path, said):
    path.parent.mkdir()
    path.write_text("{")
    assert load(RealFiles(), path, said.append) is None
    assert broken_of(path).read_text() == "{"
    assert len(said) == 1


@pytest.mark.parametrize("text", [None, "{"])
def test_a_broken_backup_that_is_needed_is_an_error(path, text):
    path.parent.mkdir()
    backup_of(path).write_text("nonsense")
    if text is not None:
        path.write_text(text)
    with pytest.raises(FormatError, match=r"topics\.json\.bak.*repair"):
        load(RealFiles(), path)


def test_a_broken_backup_that_is_not_needed_is_left_alone(path):
    save(RealFiles(), path, "{}")
    backup_of(path).write_text("nonsense")
    assert load(RealFiles(), path) == {}


def test_an_empty_file_does_not_replace_the_backup(path):
    path.parent.mkdir()
    backup_of(path).write_text('{"a":1}')
    path.write_text("")
    save(RealFiles(), path, '{"a":2}')
    assert backup_of(path).read_text() == '{"a":1}'


@pytest.mark.parametrize("calls", range(3))
def test_a_save_that_stops_anywhere_loses_neither_text(path, calls):
    save(RealFiles(), path, '{"a":0}')
    save(RealFiles(), path, '{"a":1}')
    with contextlib.suppress(OSError):
        save(FailingFiles(calls), path, '{"a":2}')
    assert load(RealFiles(), path) == {"a": 2 if calls == 2 else 1}


def test_the_folder_s_own_name_is_durable(tmp_path):
    files = RecordingFiles(RealFiles())
    save(files, tmp_path / "config" / "topics.json", "{}")
    assert [call.path for call in files.calls if call.name == "sync_dir"] == [tmp_path]


def test_unicode_is_kept(path):
    save(RealFiles(), path, '{"grün":"\U0001f600"}')
    assert load(RealFiles(), path) == {"grün": "\U0001f600"}
