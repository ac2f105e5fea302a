"""etcd of Debian's packages, unpacked into the cache; nothing is installed and no service is started."""

import json
import os
import subprocess

import pytest
from harness.ports import free_port
from harness.process import Process
from harness.tools import cache, filling, require

PACKAGES = ("etcd-server", "etcd-client")
DOWNLOAD_S = 300.0
START_S = 30.0


def programs():
    """Return the folder with `etcd` and `etcdctl`."""
    require("apt-get", "dpkg-deb")
    kept = cache() / "etcd-debian"
    with filling(kept) as folder:
        if folder is not None:
            command = ["apt-get", "download", *PACKAGES]
            done = subprocess.run(command, cwd=folder, capture_output=True, timeout=DOWNLOAD_S, check=False)
            if done.returncode:
                pytest.skip(f"etcd cannot be downloaded: {done.stderr.decode(errors='replace')}")
            for package in folder.glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", package, folder], check=True, timeout=DOWNLOAD_S)
                package.unlink()
    return kept / "usr" / "bin"


class EtcdServer(Process):
    """One member of an etcd cluster; it can be killed and another one started on its folder."""

    leaves_something = False

    def __init__(self, scratch, number, ports, tls=(), hosts=()):
        """*hosts*: where each member runs, with `address` and `under`; all on the loopback address without them."""
        scheme = "https" if tls else "http"
        client, peer = ports[number]
        addresses = [each.address for each in hosts] or ["127.0.0.1"] * len(ports)
        here, under = addresses[number], hosts[number].under if hosts else ()
        self.endpoint = f"{here}:{client}"
        self.tls = tls
        self.again = lambda: EtcdServer(scratch, number, ports, tls, hosts)
        members = ",".join(f"n{each}=http://{addresses[each]}:{pair[1]}" for each, pair in enumerate(ports))
        command = [
            *(*under, programs() / "etcd"),
            *("--name", f"n{number}", "--data-dir", scratch / f"data{number}"),
            *("--listen-client-urls", f"{scheme}://{self.endpoint}"),
            *("--advertise-client-urls", f"{scheme}://{self.endpoint}"),
            *("--listen-peer-urls", f"http://{here}:{peer}"),
            *("--initial-advertise-peer-urls", f"http://{here}:{peer}"),
            *("--initial-cluster", members, "--initial-cluster-state", "new"),
            *tls,
        ]
        super().__init__(f"etcd{number}", command, scratch, env={**os.environ, "ETCD_UNSUPPORTED_ARCH": "arm64"})

    def log(self):
        return self._err.read_text(errors="replace")


def start_etcd(running, scratch, count, tls=(), hosts=()):
    """Start a cluster of *count* members; return them when it has a leader. *hosts*: see EtcdServer."""
    ports = [(free_port(), free_port()) for _ in range(count)]
    servers = [running(EtcdServer(scratch, number, ports, tls, hosts)) for number in range(count)]
    for each in servers:
        each.wait_for_start(lambda p: "ready to serve client requests" in p.log(), "ready", START_S)
    return servers


def etcdctl(server, *words, options=()):
    """Run `etcdctl`; return its output."""
    scheme = "https" if server.tls else "http"
    command = [programs() / "etcdctl", "--endpoints", f"{scheme}://{server.endpoint}", *options, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env={**os.environ, "ETCDCTL_API": "3"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def leader(servers):
    """Return the leading member."""
    for each in servers:
        if each.alive():
            [status] = json.loads(etcdctl(each, "endpoint", "status", "-w", "json"))
            if status["Status"]["leader"] == status["Status"]["header"]["member_id"]:
                return each
    raise AssertionError("there is no leader")
