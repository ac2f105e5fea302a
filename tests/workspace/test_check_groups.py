"""The count after tox: which environments ran, from the results of both runs of tox."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))

import check_groups

RAN = [{"retcode": 0}]


def write(folder, name, **environments):
    listed = {each: {"test": commands} if commands is not None else {} for each, commands in environments.items()}
    (folder / name).write_text(json.dumps({"testenvs": listed}))


def test_an_environment_that_only_one_run_of_tox_ran_counts_as_run(tmp_path):
    write(tmp_path, "result-quick.json", lint=RAN, slow=None, spark=[])
    write(tmp_path, "result-full.json", lint=None, slow=RAN, spark=[])
    write(tmp_path, "result-timed.json", interop=RAN)
    assert check_groups.read_results(tmp_path) == ({"lint": RAN, "slow": RAN, "interop": RAN}, [])


def test_a_run_of_tox_without_results_is_told(tmp_path):
    write(tmp_path, "result-quick.json", lint=RAN)
    write(tmp_path, "result-timed.json")
    ended, missing = check_groups.read_results(tmp_path)
    assert list(ended) == ["lint"]
    assert missing == [f"{tmp_path / 'result-full.json'} does not exist: tox ended before it wrote its results"]
