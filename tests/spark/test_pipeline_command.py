"""`gantrymq pipeline` without Spark or Java or with old versions, and its options; Spark is never started."""

import subprocess
import sys
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq_spark.commands import JOBS
from gantrymq_spark.commands.inputs import input_options
from gantrymq_spark.commands.progress import JobProgress, running_jobs
from gantrymq_spark.commands.spark import sentence_of, spark_options
from gantrymq_spark.jobs.inputs import Input

REBUILD = ["pipeline", "rebuild", "somewhere"]


def run(*arguments):
    done = CliRunner().invoke(main, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done


def in_a_process(*arguments, before=""):
    code = f"import sys\n{before}\nfrom gantrymq.cli import main\ntry:\n    main({list(arguments)!r})\n"
    code += "finally:\n    print('pyspark' in sys.modules, file=sys.stderr)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [["--help"], *([job, "--help"] for job in JOBS)])
def test_help_imports_no_pyspark(arguments):
    if arguments[0] in JOBS:
        try:
            JOBS[arguments[0]].load()
        except ModuleNotFoundError as problem:
            pytest.skip(str(problem))
    done = in_a_process("pipeline", *arguments)
    assert (done.returncode, done.stderr) == (0, "False\n")
    assert "Usage: " in done.stdout


def test_without_pyspark():
    done = in_a_process(*REBUILD, before="sys.modules['pyspark'] = None")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == (
        "gantrymq: pyspark is not installed, and this command requires Spark; "
        "pip install 'gantrymq-spark[spark]' (in a clone of GantryMQ: pip install './plugins/spark[spark]')"
    )


@pytest.fixture
def some_pyspark(monkeypatch):
    def put(version):
        monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__=version))

    put("4.2.0")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return put


@pytest.mark.parametrize("version", ["4.1.1", "3.5.8", "unknown"])
def test_an_old_pyspark(some_pyspark, version):
    some_pyspark(version)
    done = run(*REBUILD)
    assert (done.exit_code, done.stderr) == (
        1,
        f"gantrymq: pyspark {version} is too old, Spark 4.2 or newer is needed; "
        "pip install 'gantrymq-spark[spark]' (in a clone of GantryMQ: pip install './plugins/spark[spark]')\n",
    )


@pytest.mark.parametrize(
    ("says", "what"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is 11"),
        ('java version "1.8.0_401"', "is 8"),
        ("no Java at all", "is of an unknown version"),
    ],
)
def test_an_old_java(some_pyspark, monkeypatch, tmp_path, says, what):
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    done = run(*REBUILD)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"gantrymq: Spark needs Java 17 or newer, and {java} {what}; install it")


def test_no_java(some_pyspark, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is no java on the PATH; install it" in run(*REBUILD).stderr
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"there is no {tmp_path}/bin/java; install it" in run(*REBUILD).stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--conf", "spark.x"], "'spark.x' is not a setting; write KEY=VALUE"),
        (["--no-queues", "--no-index"], "together leave nothing to do; give at most one"),
        (["--slots", "7"], "give --slots and --entries together"),
    ],
)
def test_wrong_usage(arguments, says):
    done = run(*REBUILD, *arguments)
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())


def test_help_lists_the_options_that_a_job_takes():
    refused = {"archive": ("--archive", "--since", "--until", "--tags", "--sql92"), "audit": ("--tags", "--sql92")}
    for job in ("archive", "audit", "query", "replay", "stats"):
        text = run("pipeline", job, "--help").stdout
        for option in ("--topic", "--store", *refused["archive"]):
            assert (f"  {option} " in text) is (option not in refused.get(job, ())), (job, option)


REPLAY = ["replay", "--to-topic", "Again"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        *((words, "give --topic") for words in (["query"], ["stats"], ["archive", "x"], REPLAY, ["audit"])),
        *(
            ([*words, "--store", "x", "--archive", "y"], "a store and an archive are given")
            for words in (["query"], ["stats"], ["archive", "x"], REPLAY, ["audit"])
        ),
        (["query", "--topic", "T", "--topic-pattern", "T.*"], "give --topic or --topic-pattern"),
        (["query", "--topic", "T", "--tags", "||"], "--tags: "),
        (["stats", "--topic", "T", "--option", "starts=1"], "has no option starts"),
        (["query", "--topic", "T", "--live"], "name one with --archive"),
        (["query", "--archive", "x", "--live"], "--live needs topics"),
        *(
            ([*words, "--since", "-10m", "--until", "-20m"], "--since must be the earlier time")
            for words in (["query", "--topic", "T"], ["stats", "--store", "x"], ["audit", "--archive", "x"])
        ),
        (["query", "--topic", "T", "--since", "1000", "--until", "1000"], "between --since (1970-01-01 00:00:01 UTC)"),
        (["archive", "x", "--archive", "y"], "an archive is written from live topics or a store"),
        (["archive", "x", "--topic", "T", "--tags", "a"], "remove --tags"),
        ([*REPLAY, "--store", "x"], "give --to-namesrv or -n, or set NAMESRV_ADDR"),
    ],
)
def test_wrong_usage_is_found_before_spark_starts(monkeypatch, arguments, says):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.setitem(sys.modules, "gantrymq_spark.session", None)  # that would start it
    done = run("pipeline", *arguments)
    assert (done.exit_code, says in " ".join(done.stderr.split())) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["archive", "{store}/archive", "--store", "{store}"], 1),
        (["archive", "{store}", "--topic", "T"], 1),
        (["archive", "{store}/..", "--store", "{store}"], 1),
        (["query", "--topic", "T", "--to", "{store}/rows"], 1),
        (["stats", "--topic", "T", "--report", "{store}/report"], 1),
        (["audit", "--store", "{store}", "--report", "{store}/config"], 2),
    ],
)
def test_output_into_a_store_is_refused_before_spark_starts(monkeypatch, tmp_path, arguments, code):
    monkeypatch.setitem(sys.modules, "gantrymq_spark.session", None)
    store = tmp_path / "store"
    for name in ("commitlog", "consumequeue", "config"):
        (store / name).mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    done = run("pipeline", *(word.format(store=store) for word in arguments))
    assert (done.exit_code, "name a folder outside it" in " ".join(done.stderr.split())) == (code, True), done.stderr
    assert sorted(tmp_path.rglob("*")) == before


@click.command()
@input_options
@spark_options
@click.pass_context
def told(ctx, given, master, conf):
    ctx.obj.append((given, master, conf))


def test_options_of_what_is_read():
    found = []
    arguments = "--topic A --topic B -n h:1 --since 1000 --until 2000 --tags x||y --option a=b=c --conf k=v --master m"
    done = CliRunner().invoke(told, arguments.split(), obj=found)
    assert done.exit_code == 0, done.output
    given = Input(("A", "B"), namesrv="h:1", since_ms=1000, until_ms=2000, tags="x||y", options={"a": "b=c"})
    assert found == [(given, "m", {"k": "v"})]


@pytest.mark.parametrize(
    ("arguments", "environ", "namesrv"),
    [
        (["--topic", "T"], "", "127.0.0.1:9876"),
        (["--topic", "T"], "h:2", "h:2"),
        (["--topic", "T", "-n", "h:1"], "h:2", "h:1"),
        (["--store", "folder"], "", None),
    ],
)
def test_name_servers_of_live_topics_are_found_as_by_other_commands(arguments, environ, namesrv):
    found = []
    done = CliRunner().invoke(told, arguments, obj=found, env={"NAMESRV_ADDR": environ or None})
    assert done.exit_code == 0, done.output
    assert found[0][0].namesrv == namesrv


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--since", "soon"], "'soon' is not a time; expected one such as"),
        (["--until", "-5 parsecs"], "'5 parsecs' is not a duration"),
        (["--option", "x"], "'x' is not an option; write KEY=VALUE"),
        (["--option", "=x"], "'=x' is not an option; write KEY=VALUE"),
    ],
)
def test_options_that_cannot_be(arguments, says):
    done = CliRunner().invoke(told, arguments, obj=[])
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())


def test_progress_counts_stages_and_tasks():
    stages = {4: (10, 10), 5: (7, 3), 6: (1, 0)}
    tracker = SimpleNamespace(
        getActiveJobsIds=lambda: [2, 1],
        getJobInfo=lambda job: None if job == 1 else SimpleNamespace(stageIds=[4, 5, 6, 7]),
        getStageInfo=lambda stage: (
            SimpleNamespace(numTasks=stages[stage][0], numCompletedTasks=stages[stage][1]) if stage in stages else None
        ),
    )
    assert running_jobs(tracker) == [JobProgress(2, 3, 1, 18, 13)]
    assert str(running_jobs(tracker)[0]) == "job 2: 1 of 3 stages, 13 of 18 tasks"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed to plan: Traceback (most recent call last):\n  File \"x\"\n"
            "gantrymq.errors.ConfigError: a is b; write c\n SQLSTATE: 38000\n\tat java.base/X",
            "a is b; write c",
        ),
        (
            "An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Job aborted due to stage "
            "failure: Task 1 in stage 3.0 failed 1 times, most recent failure: Lost task 1.0 in stage 3.0 (TID 7) (h "
            "executor 1): org.apache.spark.SparkException: Python worker exited.\n\tat org.apache.X",
            "a task failed: Python worker exited.",
        ),
        ("An error occurred.\n: java.lang.IllegalStateException: stopped\n\tat x", "Spark: stopped"),
        ("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03", "Spark: Path does not exist: file:/x"),
        ("Traceback (most recent call last):\n  x\nModuleNotFoundError: No module named 'gantrymq_spark.live'",
         "the Python of the executors has no gantrymq_spark; docs/spark/cluster.md describes its installation"),
        ("", "Spark: it failed without a message"),
    ],
)  # fmt: skip
def test_one_sentence_of_what_spark_says(text, sentence):
    assert sentence_of(text) == sentence
