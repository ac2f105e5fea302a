"""Name server, broker and proxy of Apache RocketMQ, each in its own folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from harness.jars import JVM, QUICK_START, keep_server_archive, proxy_class_path, server_archive, server_class_path
from harness.peers import serves
from harness.ports import free_port
from harness.probe import wait_for_registration
from harness.process import Process

BOOT_S = 90.0
NAME_SERVER, BROKER, PROXY = "namesrv.NamesrvStartup", "broker.BrokerStartup", "proxy.ProxyStartup"

# Small files, and nothing that makes large ones.
SMALL_STORE = {"mappedFileSizeCommitLog": "1048576", "mappedFileSizeConsumeQueue": "6000"}
JAVA_ONLY = {
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "timerWheelEnable": "false",
    "diskMaxUsedSpaceRatio": "95",
    "enablePropertyFilter": "true",
}

# Otherwise each server signs a certificate for itself, which takes two thirds of the CPU time of its start.
WITHOUT_TLS = "-Dtls.server.mode=disabled"

# RocketMQ 4 does not start without a logback file in its home; 5 brings its own.
LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{file}</file>
    <encoder><pattern>%d %-5level %logger - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""


class JavaNameServer(Process):
    """`NamesrvStartup` of *version*; ready when the constructor returns. *tls*: whether it accepts TLS."""

    leaves_something = False

    def __init__(
        self,
        version: str,
        scratch: Path,
        port: int = 0,
        *,
        settings: Mapping[str, str] | None = None,
        tls: bool = False,
    ) -> None:
        port = port or free_port()
        self.address = f"127.0.0.1:{port}"
        conf = _write_conf(
            scratch,
            "namesrv.conf",
            {
                "listenPort": str(port),
                "bindAddress": "127.0.0.1",
                "kvConfigPath": str(scratch / "kvConfig.json"),
                "configStorePath": str(scratch / "namesrv.properties"),
                **(settings or {}),
            },
        )
        flags = (*QUICK_START, "-Xms128m", "-Xmx256m")
        super().__init__("java-namesrv", _java(version, scratch, flags, NAME_SERVER, conf, tls=tls), scratch)
        serves(f"RocketMQ name server {version}", self.alive)
        self.wait_for_start(lambda p: "boot success" in p.output, "boot success", BOOT_S)
        keep_server_archive(self.pid, server_archive(version, NAME_SERVER))


class JavaBroker(Process):
    """`BrokerStartup` of *version* on *store*; registered, with its route, when the constructor returns.

    Args:
        version: of RocketMQ, such as "5.3.3".
        scratch: its home; configuration, logs and, unless *store* is given, the store are below it.
        namesrv: HOST:PORT of the name server, Java's or ours.
        store: the store's folder; an existing store is opened.
        settings: of broker.conf; they override those for small files.
        port: to listen on; 0 for a free one.
        keep: whether the test reads the store afterwards; the broker is then stopped, which takes ten seconds.
        tls: whether it accepts TLS, as it does by default outside the tests.
    """

    tuning: ClassVar[tuple[str, ...]] = QUICK_START

    def __init__(
        self,
        version: str,
        scratch: Path,
        namesrv: str,
        *,
        store: Path | None = None,
        settings: Mapping[str, str] | None = None,
        port: int = 0,
        keep: bool = True,
        tls: bool = False,
    ) -> None:
        self.leaves_something = keep
        self.store = store or scratch / "store"
        port = port or free_port(also_below=2)
        self.address = f"127.0.0.1:{port}"
        conf = _write_conf(scratch, "broker.conf", {**_broker_conf(namesrv, port, self.store), **(settings or {})})
        flags = (*self.tuning, "-Xms256m", "-Xmx768m", "-XX:MaxDirectMemorySize=512m")
        super().__init__("java-broker", _java(version, scratch, flags, BROKER, conf, tls=tls), scratch)
        serves(f"RocketMQ broker {version}", self.alive)
        self.wait_for_start(lambda p: "boot success" in p.output, "boot success", BOOT_S)
        if self.tuning:
            keep_server_archive(self.pid, server_archive(version, BROKER))
        try:
            known_as = (settings or {}).get("brokerIP1", "127.0.0.1")
            wait_for_registration(namesrv, f"{known_as}:{port}")
        except BaseException:  # nobody else could stop it
            self.kill()
            raise


class JavaProxy(Process):
    """`ProxyStartup` of *version*, which serves gRPC, with a broker in it; registered when the constructor returns.

    Its gRPC port listens on all addresses: there is no setting for it.

    Args:
        version: of RocketMQ.
        scratch: its home.
        namesrv: HOST:PORT of the name server.
        settings: of broker.conf.
        proxy_settings: of rmq-proxy.json.
    """

    leaves_something = False
    tuning: ClassVar[tuple[str, ...]] = QUICK_START

    def __init__(
        self,
        version: str,
        scratch: Path,
        namesrv: str,
        *,
        settings: Mapping[str, str] | None = None,
        proxy_settings: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        port, grpc = free_port(also_below=2), free_port()
        self.broker_address = f"127.0.0.1:{port}"
        self.endpoint = f"127.0.0.1:{grpc}"
        conf = _write_conf(
            scratch, "broker.conf", {**_broker_conf(namesrv, port, scratch / "store"), **(settings or {})}
        )
        _write_conf(scratch, "proxy.conf", {})  # the logger's file
        own = scratch / "conf" / "rmq-proxy.json"
        own.write_text(
            json.dumps(
                {
                    "rocketMQClusterName": "DefaultCluster",
                    "proxyMode": "LOCAL",
                    "namesrvAddr": namesrv,
                    "grpcServerPort": grpc,
                    "remotingListenPort": free_port(),
                    **(proxy_settings or {}),
                }
            )
        )
        flags = (*self.tuning, "-Xms256m", "-Xmx768m", "-XX:MaxDirectMemorySize=512m")
        java = _java(version, scratch, flags, PROXY, own, tls=True, class_path=proxy_class_path(version))
        words = [*java[:-2], "-pc", own, "-bc", conf, "-pm", "LOCAL", "-n", namesrv]
        super().__init__("java-proxy", words, scratch)
        serves(f"RocketMQ proxy {version}", self.alive)
        self.wait_for_start(lambda p: "startup successfully" in p.output, "startup successfully", BOOT_S)
        if self.tuning:
            keep_server_archive(self.pid, server_archive(version, PROXY, proxy_class_path(version)))
        try:
            wait_for_registration(namesrv, self.broker_address)
        except BaseException:  # nobody else could stop it
            self.kill()
            raise


def _broker_conf(namesrv: str, port: int, store: Path) -> dict[str, str]:
    """Return the settings of a broker that all tests need."""
    return {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "0",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "listenPort": str(port),
        "haListenPort": str(free_port()),
        "namesrvAddr": namesrv,
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        **SMALL_STORE,
        **JAVA_ONLY,
    }


def _java(
    version: str,
    scratch: Path,
    flags: tuple[str, ...],
    main: str,
    conf: Path,
    *,
    tls: bool = False,
    class_path: str | None = None,
) -> list[str | Path]:
    class_path = class_path or server_class_path(version)
    archive = server_archive(version, main, class_path)
    sharing = f"-XX:SharedArchiveFile={archive}" if archive.exists() else "-XX:+RecordDynamicDumpInfo"
    quick = [sharing] if set(QUICK_START) <= set(flags) else []
    properties = [f"-Duser.home={scratch}", f"-Drocketmq.home.dir={scratch}", *([] if tls else [WITHOUT_TLS])]
    return ["java", *JVM, *flags, *quick, *properties, "-cp", class_path, f"org.apache.rocketmq.{main}", "-c", conf]


def _write_conf(scratch: Path, name: str, settings: Mapping[str, str]) -> Path:
    """Write the settings in RocketMQ's format. Its home needs a folder `conf`."""
    folder = scratch / "conf"
    folder.mkdir(parents=True, exist_ok=True)
    conf = folder / name
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    logs = scratch / "logs" / f"{conf.stem}.log"
    (folder / f"logback_{conf.stem}.xml").write_text(LOGBACK.format(file=logs))
    return conf
