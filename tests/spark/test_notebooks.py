"""The notebooks of examples/spark run as they are, one cell after the other."""

import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")
pytest.importorskip("gantrymq_admin")

pytestmark = pytest.mark.spark
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "spark"
SAYS = {
    "01_messages_from_a_store": [
        r"\|Created\|   20\|",
        r"\| +\d\| +\d+\|order 17\|north\|",
        "^0 damaged stretches",
    ],
    "02_streaming_orders": [r"\|shop\| +50\| +2500\|", r"\| web\| +50\| +2450\|", "^10 big orders"],
    "03_archive_and_query": [
        "^50 messages archived",
        "^30 messages archived",
        "^95 messages",
        r"\|order-7\|\{",
        r"\|order-44\|order 44\|",
    ],
}


def test_there_is_no_other():
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_a_notebook_runs(spark, capsys, tmp_path, monkeypatch, name):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runpy.run_path(str(FOLDER / f"{name}.py"))
    said = capsys.readouterr().out
    for words in SAYS[name]:
        assert re.search(words, said, re.MULTILINE), said
