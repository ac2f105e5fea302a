"""Downloads the jars of a RocketMQ version and compiles the driver, once per machine.

<cache>/<version>/steps-jar-<hash of pom and sources>/steps.jar
<cache>/<version>/server-<hash of the pom>/*.jar
<cache>/<version>/client-<hash of the pom>/*.jar
<cache>/<version>/driver-jar-<hash of pom and sources>/driver.jar
<cache>/<version>/archive-<hash of the driver's class path and flags>/driver.jsa
<cache>/<version>/<main class>-archive-<hash of the class path and flags>/server.jsa
<cache>/<version>/tools-jar-<hash of pom and sources>/tools.jar
<cache>/<version>/pops-jar-<hash of pom and sources>/pops.jar
<cache>/<version>/filters-jar-<hash of pom and sources>/filters.jar
<cache>/<version>/proxy-<hash of the pom>/*.jar
<cache>/<version>/sdk-<hash of the pom>/*.jar
<cache>/<version>/sdk-jar-<hash of pom and sources>/sdk.jar
<cache>/<version>/grpc-tests-<hash of the pom>/*.jar
<cache>/<version>/grpc-tests-sources/test/src/...
<cache>/<version>/grpc-tests-jar-<hash of pom and sources>/grpc-tests.jar
"""

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from harness.tools import HERE, cache, filling, require

STEPS = HERE / "java" / "steps"
SERVER = HERE / "java" / "server"
CLIENT = HERE / "java" / "client"
TOOLS = HERE / "java" / "tools"
POPS = HERE / "java" / "pop"
FILTERS = HERE / "java" / "filter"
PROXY = HERE / "java" / "proxy"
SDK = HERE / "java" / "sdk"
GRPC_TESTS = HERE / "java" / "grpc_tests"
DOWNLOAD_S = 600.0

# What Java 17 has to be told for the servers' direct buffers; harmless for the client.
JAVA_17 = [
    f"--add-{kind}={package}=ALL-UNNAMED"
    for kind, package in (
        ("opens", "java.base/java.nio"),
        ("opens", "java.base/sun.nio.ch"),
        ("opens", "java.base/java.lang"),
        ("exports", "java.base/sun.nio.ch"),
        ("exports", "java.base/jdk.internal.ref"),
        ("exports", "java.base/sun.security.action"),
    )
]

JVM = ("-XX:+UseSerialGC", "-XX:-UsePerfData", *JAVA_17)
QUICK_START = ("-XX:TieredStopAtLevel=1",)  # rather than fast in the long run
QUICK = (*QUICK_START, "-Xmx256m", *JVM)


def server_class_path(version: str) -> str:
    """Return the class path of the name server and broker *version*."""
    return f"{_jars(SERVER, version, 'server')}/*"


def proxy_class_path(version: str) -> str:
    """Return the class path of the proxy *version*, with a broker in it."""
    return f"{_jars(PROXY, version, 'proxy')}/*"


def sdk_class_path(version: str) -> str:
    """Return the class path of `gantrymq.interop.Sdk`, compiled against the gRPC client *version*."""
    sources = [*sorted((SDK / "src").rglob("*.java")), *(CLIENT / "src").rglob("Events.java")]
    return _compiled(SDK / "pom.xml", sources, _jars(SDK, version, "sdk"), version, "sdk")


def grpc_tests_class_path(version: str, clone: Path) -> str:
    """Return the class path of `gantrymq.interop.GrpcTests` with RocketMQ's gRPC tests.

    Args:
        version: of RocketMQ.
        clone: a clone of apache/rocketmq with the tag of the version; Maven has no jar of these tests.
    """
    kept = cache() / version / "grpc-tests-sources"
    with filling(kept) as folder:
        if folder is not None:
            require("git")
            wanted = ("test/src/main", "test/src/test/java/org/apache/rocketmq/test/grpc", "test/src/test/resources")
            command = ["git", "-C", clone, "archive", f"rocketmq-all-{version}", *wanted]
            done = subprocess.run(command, capture_output=True, timeout=DOWNLOAD_S, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"git archive in {clone} ended with {done.returncode}: {done.stderr.decode()}")
            with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
                archive.extractall(folder, filter="data")
    names = ("MQAdminTestUtils", "MQRandomUtils", "RandomUtils", "GrpcBaseIT", "LocalGrpcIT")
    theirs = (path for name in names for path in kept.rglob(f"{name}.java"))
    sources = [*(GRPC_TESTS / "src").rglob("*.java"), *(CLIENT / "src").rglob("Events.java"), *theirs]
    jars = _jars(GRPC_TESTS, version, "grpc-tests")
    compiled = _compiled(GRPC_TESTS / "pom.xml", sorted(sources), jars, version, "grpc-tests")
    return f"{kept / 'test/src/test/resources'}{os.pathsep}{compiled}"


def steps_class_path(version: str) -> str:
    """Return the class path of `gantrymq.interop.Steps`, compiled against the client *version* (5.3.3 or newer)."""
    shared = (
        path for name in ("Errors", "Events", "Leaving", "Options") for path in (CLIENT / "src").rglob(f"{name}.java")
    )
    sources = sorted([*(STEPS / "src").rglob("*.java"), *shared])
    return _compiled(CLIENT / "pom.xml", sources, _jars(CLIENT, version, "client"), version, "steps")


def driver_class_path(version: str) -> str:
    """Return the class path of `gantrymq.interop.Driver`, compiled against the client *version*."""
    sources = sorted((CLIENT / "src").rglob("*.java"))
    return _compiled(CLIENT / "pom.xml", sources, _jars(CLIENT, version, "client"), version, "driver")


def driver_archive(version: str, class_path: str) -> Path:
    """Return an archive of the driver's classes. Java maps it instead of reading and verifying 2,000 classes.

    It is written by a driver without a name server, and is valid for processes with the options `QUICK`.

    Args:
        version: of the client.
        class_path: of the driver compiled against it.
    """
    text = " ".join([*QUICK, class_path])
    kept = cache() / version / f"archive-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    with filling(kept) as folder:
        if folder is not None:
            words = ["produce", "--namesrv", "127.0.0.1:1", "--topic", "None", "--count", "1", "--mode", "sync"]
            at_exit = f"-XX:ArchiveClassesAtExit={folder / 'driver.jsa'}"
            command = ["java", *QUICK, at_exit, "-cp", class_path, "gantrymq.interop.Driver", *words]
            subprocess.run(command, capture_output=True, timeout=DOWNLOAD_S, check=False)
    return kept / "driver.jsa"


def server_archive(version: str, main: str, class_path: str | None = None) -> Path:
    """Return the path of an archive of the classes of a server; `keep_server_archive` writes it.

    Args:
        version: of RocketMQ.
        main: the server's main class.
        class_path: by default that of the name server and broker.
    """
    text = " ".join([*JVM, class_path or server_class_path(version), main])
    return cache() / version / f"{main}-archive-{hashlib.sha256(text.encode()).hexdigest()[:12]}" / "server.jsa"


def keep_server_archive(pid: int, archive: Path) -> None:
    """Write *archive* unless it exists, from the server *pid* that runs with ``-XX:+RecordDynamicDumpInfo``.

    Without `jcmd`, or if it fails, servers start without an archive.
    """
    if archive.exists() or shutil.which("jcmd") is None:
        return
    with filling(archive.parent) as folder:
        if folder is not None:
            command = ["jcmd", str(pid), "VM.cds", "dynamic_dump", str(folder / archive.name)]
            subprocess.run(command, capture_output=True, timeout=DOWNLOAD_S, check=False)


def tools_class_path(version: str) -> str:
    """Return the class path of `gantrymq.interop.MqAdmin`, compiled against the admin tool *version*."""
    shared = (path for name in ("Events", "Leaving") for path in (CLIENT / "src").rglob(f"{name}.java"))
    sources = sorted([*(TOOLS / "src").rglob("*.java"), *shared])
    return _compiled(SERVER / "pom.xml", sources, _jars(SERVER, version, "server"), version, "tools")


def pops_class_path(version: str) -> str:
    """Return the class path of `gantrymq.interop.Pops`, compiled against the client *version* (5 or newer)."""
    names = ("Account", "Events", "Leaving", "Received")
    shared = (path for name in names for path in (CLIENT / "src").rglob(f"{name}.java"))
    sources = sorted([*(POPS / "src").rglob("*.java"), *shared])
    return _compiled(CLIENT / "pom.xml", sources, _jars(CLIENT, version, "client"), version, "pops")


def filters_class_path(version: str) -> str:
    """Return the class path of `gantrymq.interop.Filters`, compiled against the broker *version*."""
    sources = sorted([*(FILTERS / "src").rglob("*.java"), *(CLIENT / "src").rglob("Events.java")])
    return _compiled(SERVER / "pom.xml", sources, _jars(SERVER, version, "server"), version, "filters")


def _compiled(pom: Path, sources: list[Path], jars: Path, version: str, name: str) -> str:
    """Return the class path of one of our programs: its jar, then the jars that it was compiled against."""
    kept = cache() / version / f"{name}-jar-{_digest(pom, *sources)}"
    with filling(kept) as folder:
        if folder is not None:
            require("javac", "jar")
            classes = folder / "classes"
            _run("javac", "--release", "11", "-nowarn", "-cp", f"{jars}/*", "-d", classes, *sources)
            _run("jar", "--create", "--file", folder / f"{name}.jar", "-C", classes, ".")
    return f"{kept / name}.jar{os.pathsep}{jars}/*"


def kept_jars(project: Path, name: str) -> Path:
    """Return the folder with the jars listed in the ``pom.xml`` of *project*, in the versions named there."""
    return _jars(project, "own", name)


def _jars(project: Path, version: str, name: str) -> Path:
    require("java")
    pom = project / "pom.xml"
    jars = cache() / version / f"{name}-{_digest(pom)}"
    with filling(jars) as folder:
        if folder is not None:
            require("mvn")
            _run(
                *("mvn", "--quiet", "--batch-mode", "--file", pom, f"-Drocketmq.version={version}"),
                *(f"-DoutputDirectory={folder}", "-DincludeScope=runtime", "dependency:copy-dependencies"),
            )
    return jars


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
