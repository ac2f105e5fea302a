"""Every benchmark can be imported, and some run with few messages; with ``-m long`` every benchmark runs, in an
environment that the command of benchmarks/README.md makes.

Goals are not checked: the machine may have other load. A benchmark that misses one ends with 1.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "benchmarks" / "README.md"
INSTALL = re.compile(r"^```\npip (install .*)\n```$", re.MULTILINE)
BACKENDS = ("hatchling>=1.24", "setuptools>=77")  # an environment for each build would take 3 s per distribution
DEADLINE_S = 600
LEFT_OUT = ("NAMESRV_ADDR", "PYTHONPATH", "VIRTUAL_ENV")
ONE_MODE = "--flush ASYNC_FLUSH"
SHORT = "--rounds 1 --warmup 0"
FEW = "--topics 5 --queues 2 --groups 3"

RUNS = {
    "bench_access.py": "--rounds 1 --seconds 0.1",
    "bench_admin_answers.py": f"--only 206 {FEW} --wide 8 --clients 2 --keys 2",
    "bench_backup.py": "--topics 10 --queues 2 --messages 1 --checkpoints 1",
    "bench_batching.py": f"{ONE_MODE} {SHORT} --tasks 4 --seconds 0.1",
    "bench_brokers.py": f"--brokers 1 {ONE_MODE} {SHORT} --seconds 0.1",
    "bench_client_brokers.py": f"--peers {ONE_MODE} --cells 1 --rounds 1 --warmup 0.1 --seconds 0.1 --messages 1000",
    "bench_cold_backlog.py": f"--mb 2 --seconds 1 --rounds 1 {ONE_MODE}",
    "bench_console.py": f"{FEW} --clients 2 --requests 1 --seconds 1 --settle 0 --idle 0.1 --tabs 0 --only /groups?",
    "bench_console_history.py": f"{FEW} --settle 0 --seconds 1 --days 0.1 --hours 0.5",
    "bench_console_requests.py": "",
    "bench_delay_burst.py": f"--messages 100 --lead 30 {ONE_MODE}",
    "bench_filters.py": "--no-java --rounds 1 --seconds 0.01 --subscriptions 1",
    "bench_flat.py": "--topics 1 --connections 1 --messages 500 --warmup 50 --settle 0.1",
    "bench_flat_log.py": "--largest-mb 1",
    "bench_grpc.py": "--calls 64 --rounds 1 --streams 100",
    "bench_idle.py": "--consumers 2 --queues 2 --seconds 0.1 --settle 0",
    "bench_kit.py": "--rounds 1 --pulls 20",
    "bench_many_queues.py": "--parts recovery --log-mb 1 --file-mb 1",
    "bench_memory.py": "--connections 2 --body 1000 --wait 0",
    "bench_metrics.py": "--messages 1000 --rounds 1",
    "bench_recovery.py": "--sizes 1,2 --file-mb 1",
    "bench_replication.py": "copy --gb 0.01",
    "bench_scan.py": "--records 500 --rounds 1",
    "bench_scrape.py": "--topics 10 --queues 2 --groups 5 --wide 16",
    "bench_send_python.py": f"{ONE_MODE} --warmup 0 --seconds 0.1",
    "bench_start.py": "--runs 1 --idle 0.1",
    "bench_store.py": "--records 500 --rounds 1",
    "bench_store_get.py": "--records 500 --rounds 1",
}
SOME = ("bench_filters.py", "bench_send_python.py", "bench_start.py", "bench_store.py")
JAVA = (  # a JVM warms up for some 20 s, so that only their imports are tried
    "bench_consume_java.py",
    "bench_delayed_sends_java.py",
    "bench_filtered_backlog.py",
    "bench_grpc_java.py",
    "bench_pop_java.py",
    "bench_restart_java.py",
    "bench_send_java.py",
    "bench_transactions_java.py",
)
SPARK = ("bench_spark_growth.py", "bench_spark_live.py", "bench_spark_scan.py", "bench_spark_sink.py")
"""These run in the environment of this test: another copy of Spark would be 430 MB."""


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    """The interpreter of a new environment with what the page installs."""
    folder = tmp_path_factory.mktemp("benchmarks") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    found = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    (words,) = INSTALL.findall(PAGE.read_text())
    for arguments in (("install", "--upgrade", *BACKENDS), (*shlex.split(words), "--no-build-isolation")):
        done = subprocess.run(
            [found, "-m", "pip", "--quiet", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode and "No matching distribution found for hatchling" in done.stderr:
            pytest.skip("pip cannot get hatchling, which builds the distributions")
        assert done.returncode == 0, done.stderr
    return found


def run(python, program, words):
    environ = {key: value for key, value in os.environ.items() if key not in LEFT_OUT}
    command = [python, ROOT / "benchmarks" / program, *shlex.split(words)]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stdout.strip(), done.stderr


@pytest.mark.parametrize("program", SOME)
def test_a_benchmark_runs(program):
    run(sys.executable, program, RUNS[program])


def test_every_benchmark_has_what_it_imports():
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); [__import__(name) for name in sys.argv[1:]]"
    names = [program.removesuffix(".py") for program in (*RUNS, *JAVA)]
    done = subprocess.run([sys.executable, "-c", code, *names], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
@pytest.mark.parametrize("program", RUNS)
def test_a_benchmark_runs_in_the_environment_of_the_page(program, python):
    run(python, program, RUNS[program])


@pytest.mark.long
@pytest.mark.parametrize("program", JAVA)
def test_a_benchmark_beside_java_has_what_it_imports(program, python):
    run(python, program, "--help")


@pytest.mark.spark
@pytest.mark.parametrize("program", SPARK)
def test_a_benchmark_of_spark_has_what_it_imports(program):
    run(sys.executable, program, "--help")


def test_every_benchmark_is_run_and_on_the_page():
    programs = {each.name for each in (ROOT / "benchmarks").glob("bench_*.py")}
    assert programs == {*RUNS, *JAVA, *SPARK}
    assert programs == set(re.findall(r"^\| `(bench_\w+\.py)", PAGE.read_text(), re.MULTILINE))
