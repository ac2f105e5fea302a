"""Run tests with the compiled functions under AddressSanitizer and UndefinedBehaviorSanitizer.

    python .ci/sanitize.py FOLDER [arguments of pytest]

Builds ``speedups`` again, from a copy in FOLDER and with the system's C compiler, installs it in place of the existing
one, and runs pytest with the sanitizers' libraries. Python allocates its memory with malloc then, so that out-of-bounds
accesses are detected. The first finding ends the process, pytest or one started by a test, and is printed: by
UndefinedBehaviorSanitizer at once, by AddressSanitizer at the end. Each fails the run. Python and its modules never
free some memory, so leaks are not checked: tests/speedups counts the memory of the functions. If the libraries are
missing, nothing runs, and one sentence is printed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SANITIZE = "-fsanitize=address,undefined"
COMPILE = f"{SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g"
LIBRARIES = ("libasan.so", "libubsan.so")
PROBE = "import gantrymq.speedups as found, sys; print(found.description); sys.exit(found.compiled is None)"


def libraries() -> list[str]:
    """Return the sanitizers' libraries of the C compiler; empty if one is missing."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        return []
    found = []
    for name in LIBRARIES:
        asked = subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=False)
        path = Path(asked.stdout.strip())  # the bare name, if it has none
        if path.is_absolute() and path.exists():
            found.append(str(path.resolve()))
    return found if len(found) == len(LIBRARIES) else []


def main() -> int:
    folder, words = Path(sys.argv[1]), sys.argv[2:]
    preload = libraries()
    if not preload:
        print(f"skipped: needs Linux and a C compiler with {' and '.join(LIBRARIES)}")
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    install(folder)
    reports = Path(tempfile.mkdtemp(prefix="reports", dir=folder)) / "report"
    env = {
        **os.environ,
        "LD_PRELOAD": " ".join(preload),
        "ASAN_OPTIONS": f"detect_leaks=0:log_path={reports}",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
    }
    if subprocess.run([sys.executable, "-c", PROBE], env=env, check=False).returncode:
        print("the compiled functions do not load below the sanitizers", file=sys.stderr)
        return 1
    # With --capture=sys, output on descriptor 2 is visible even if the process ends.
    done = subprocess.run([sys.executable, "-m", "pytest", "--capture=sys", *words], env=env, check=False)
    findings = sorted(reports.parent.iterdir())
    for path in findings:
        print(path.read_text(errors="replace"), file=sys.stderr)
    if done.returncode < 0 or findings:
        print(f"pytest ended with {done.returncode}, AddressSanitizer found {len(findings)}", file=sys.stderr)
    return 1 if done.returncode or findings else 0


def install(folder: Path) -> None:
    """Build the compiled functions for the sanitizers, and install them into the Python that runs this."""
    source = folder / "speedups"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "libs/speedups", source, ignore=shutil.ignore_patterns("build", "*.egg-info", "*.so"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    flags = {**os.environ, "CC": "cc", "CFLAGS": COMPILE, "LDFLAGS": SANITIZE}
    subprocess.run([*pip, "--force-reinstall", "--no-deps", "--no-cache-dir", str(source)], env=flags, check=True)


if __name__ == "__main__":
    sys.exit(main())
