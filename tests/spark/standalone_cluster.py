"""A standalone cluster of Spark on this machine: a master and workers as processes of their own, on free ports."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
from polling import wait_until

HOME = Path(pyspark.__file__).parent
WAIT_S = 40


class StandaloneCluster:
    """Used as a context manager; `url` is what --master takes."""

    def __init__(self, folder, workers=2):
        self._folder = folder
        self._workers = workers
        self._processes = []
        self.url = ""
        self.logs = []

    def __enter__(self):
        try:
            master = self._start("Master", "--port", "0", "--webui-port", "0")
            self.url = self._said(master, r"Starting Spark master at (spark://\S+)")
            for number in range(self._workers):
                work = ("--webui-port", "0", "--cores", "1", "--memory", "600m", "--work-dir", f"work{number}")
                self._said(self._start("Worker", *work, self.url), "Successfully registered with master")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGKILL)  # of its own session: executors are in it
            process.wait()

    def _start(self, kind, *arguments):
        log = self._folder / f"{kind}{len(self._processes)}.log"
        environ = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "128m",
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
        with log.open("wb") as said:
            self._processes.append(
                subprocess.Popen(
                    [*command, "--host", "127.0.0.1", *arguments],
                    cwd=self._folder,
                    env=environ,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                )
            )
        self.logs.append(log)
        return log

    def _said(self, log, words):
        def said():
            return log.read_text(errors="replace")

        def look():
            found = re.search(words, said())
            assert found or self._processes[-1].poll() is None, said()[-3000:]
            return found

        found = wait_until(look, f"{words!r} in {log.name}", WAIT_S, lambda: said()[-3000:])
        return found[found.re.groups]
