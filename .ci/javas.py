"""Detection of the installed Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

SPARK_NEEDS = 17


def no_spark() -> str:
    """Return why Spark cannot run with this machine's Java; empty if it can."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        return f"Spark needs Java {SPARK_NEEDS}, and there is no java"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None or int(found[1]) < SPARK_NEEDS:
        return f"Spark needs Java {SPARK_NEEDS}, and {java} is {found[1] if found else 'none that says its version'}"
    return ""
