"""Developer programs report wrong arguments with usage and one sentence, not with a traceback."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("gantrymq_storage_mmap", "gantrymq_storage_memory", "gantrymq_filter_tag", "gantrymq_metrics")

pytestmark = pytest.mark.skipif(
    any(find_spec(each) is None for each in NEEDED), reason=f"needs {', '.join(NEEDED)}, as the programs do"
)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("benchmarks/bench_start.py --runs 0", "argument --runs: 0 is less than 1"),
        ("benchmarks/bench_start.py --idle nan", "argument --idle: nan is not between 0.1 and 86400 s"),
        ("benchmarks/bench_start.py --store /nowhere", "argument --store: /nowhere is no folder"),
        ("benchmarks/bench_send_java.py --rounds 0", "argument --rounds: 0 is less than 1"),
        ("benchmarks/bench_send_java.py --flush BOGUS", "argument --flush: invalid choice: 'BOGUS'"),
        ("benchmarks/bench_send_python.py --seconds 0", "argument --seconds: 0 is not between 0.1 and 86400 s"),
        ("benchmarks/bench_consume_java.py --messages 5", "--warmup 200000: of 5 messages none would count"),
        ("benchmarks/bench_client_brokers.py --cells 2", "argument --cells: invalid choice: '2'"),
        ("benchmarks/bench_idle.py --consumers many", "argument --consumers: 'many' is not a whole number"),
        ("benchmarks/bench_store.py --batch 0", "argument --batch: 0 is less than 1"),
        ("benchmarks/bench_flat_log.py --largest-mb 0", "argument --largest-mb: 0 is less than 1"),
        ("benchmarks/bench_cold_backlog.py --seconds 0", "argument --seconds: 0 is not between 1 and 86400 s"),
        ("benchmarks/bench_scrape.py --topics -1", "argument --topics: -1 is less than 1"),
        ("tests/simulation/replay.py", "the following arguments are required: SEED"),
        ("tests/simulation/replay.py x", "argument SEED: 'x' is neither a seed nor a range such as 1-1000"),
        ("tests/simulation/replay.py 1 7-", "argument SEED: '7-' is neither a seed nor a range such as 1-1000"),
        ("tests/simulation/replay.py 9-3", "argument SEED: 9-3 holds no seed"),
    ],
)
def test_an_odd_argument_is_wrong_usage(words, sentence):
    program, *rest = words.split(" ")
    done = subprocess.run(
        [sys.executable, ROOT / program, *rest], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith(f"{Path(program).name}: error: {sentence}")
