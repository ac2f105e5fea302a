"""`gantrymq store backup` and `restore` as commands: exit codes, JSON, text."""

import json
import shutil

import pytest
from click.testing import CliRunner

from gantrymq.cli import main


def run(*words, code=0):
    done = CliRunner().invoke(main, ["store", *map(str, words)])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def backup(small, tmp_path):
    run("backup", small.root, tmp_path / "backup")
    return tmp_path / "backup"


def test_a_backup_and_its_restore_say_what_they_have(small, tmp_path):
    last, size = small.records[-1]
    said = run("backup", small.root, tmp_path / "backup").stdout
    assert said.startswith(f"{tmp_path / 'backup'}: 60 records from log offset 0 to {last + size}, ")
    facts = said.partition(": ")[2]
    assert run("restore", tmp_path / "backup", tmp_path / "made", "--dry-run").stdout == (
        f"{tmp_path / 'backup'}: sound, {facts}"
    )
    assert not (tmp_path / "made").exists()
    done = run("restore", tmp_path / "backup", tmp_path / "made")
    assert done.stdout == f"{tmp_path / 'made'}: {facts}"
    assert done.stderr == ""
    run("check", tmp_path / "made")


def test_a_store_that_is_not_clean_is_told_at_the_restore(small, tmp_path):
    (small.root / "abort").touch()
    run("backup", small.root, tmp_path / "backup", "--no-check")
    done = run("restore", tmp_path / "backup", tmp_path / "made")
    assert "its first start recovers the store, as after a kill" in done.stderr
    assert " records " not in done.stdout  # they were not counted
    shutil.rmtree(tmp_path / "backup" / "store" / "index")
    run("restore", tmp_path / "backup", tmp_path / "none", code=1)
    run("restore", tmp_path / "backup", tmp_path / "indexed", "--rebuild-index")
    assert len(list((tmp_path / "indexed" / "index").iterdir())) == len(list((small.root / "index").iterdir()))


def test_the_documents(small, tmp_path):
    made = json.loads(run("backup", small.root, tmp_path / "backup", "--output", "json").stdout)
    assert (made["records"], made["damaged"], made["clean"], made["findings"]) == (60, False, True, [])
    assert made["files"] > 3
    done = json.loads(run("restore", tmp_path / "backup", tmp_path / "made", "--output", "json").stdout)
    assert (done["restored"], done["restored_to"]) == (True, str(tmp_path / "made"))
    assert (done["log_start"], done["log_end"]) == (made["log_start"], made["log_end"])


def test_a_damaged_store_ends_with_1_and_its_findings(small, tmp_path):
    small.spoil_log(small.records[7][0] + 100, b"?")
    done = run("backup", small.root, tmp_path / "backup", code=1)
    assert "log.damaged" in done.stdout
    assert "the store was damaged before" in done.stderr
    assert json.loads((tmp_path / "backup" / "backup.json").read_text())["damaged"] is True


def test_errors_are_one_sentence(small, tmp_path, backup):
    assert "already has a backup" in run("backup", small.root, backup, code=1).stderr
    assert "is not a folder" in run("backup", tmp_path / "none", tmp_path / "other", code=1).stderr
    assert "is not a backup" in run("restore", tmp_path / "none", tmp_path / "made", code=1).stderr
    (tmp_path / "file").touch()
    assert "Not a directory" in run("backup", small.root, tmp_path / "file" / "backup", code=1).stderr
    path = next((backup / "store" / "commitlog").iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    done = run("restore", backup, tmp_path / "made", code=1)
    assert done.stderr.startswith(f"gantrymq: the backup is damaged: {path} has 8191 bytes instead of 8192")
    assert len(done.stderr.splitlines()) == 1
