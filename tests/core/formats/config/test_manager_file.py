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
    """Writes fail from the nth call on, as if the process ended there."""

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

    def replace(self, path, data, mode=None):
        self._count()
        super().replace(path, data, mode)


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


BLANKS = ["", "\0" * 4096, " \n"]
NOTHING = [None, *BLANKS, "{", "[1]"]


@pytest.mark.parametrize("main", NOTHING)
@pytest.mark.parametrize("backup", NOTHING)
def test_two_files_of_which_none_can_be_read_are_refused_again_and_again(path, said, main, backup):
    if main is backup is None:
        return
    path.parent.mkdir()
    for file, text in ((path, main), (backup_of(path), backup)):
        if text is not None:
            file.write_text(text)
    for _ in range(2):
        with pytest.raises(FormatError, match=r"topics\.json: .*topics\.json\.bak: .*or remove both files to start"):
            load(RealFiles(), path, said.append)
    assert said == []
    assert [each.read_text() if each.exists() else None for each in (path, backup_of(path))] == [main, backup]
    path.unlink(missing_ok=True)
    backup_of(path).unlink(missing_ok=True)
    assert load(RealFiles(), path, said.append) is None


@pytest.mark.parametrize("text", BLANKS)
def test_a_blank_file_does_not_replace_the_good_backup(path, text):
    save(RealFiles(), path, '{"a":1}')
    save(RealFiles(), path, '{"a":2}')
    path.write_text(text)
    load(RealFiles(), path)
    with contextlib.suppress(OSError):
        save(FailingFiles(0), path, '{"a":3}')
    assert load(RealFiles(), path) == {"a": 1}


def test_an_empty_object_beside_a_fuller_backup_is_read_with_a_warning(path, said):
    save(RealFiles(), path, '{"a":1}')
    save(RealFiles(), path, "{}")
    assert load(RealFiles(), path, said.append) == {}
    (sentence,) = said
    assert str(path) in sentence
    assert "topics.json.bak holds more" in sentence


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
