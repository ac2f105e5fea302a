"""The identity of a broker in the controller: the files ``brokerIdentity`` and ``brokerIdentity-temp``, as Java's.

    brokerIdentity        DefaultCluster#broker-a#2
    brokerIdentity-temp   DefaultCluster#broker-a#2#10.0.0.7:10911;1795624005728     while the id is applied for

The last part is the check code: another application with the same one gets the same id. Neither file has a line end.

Source: apache/rocketmq broker/.../controller/ReplicasManager.java,
store/.../ha/autoswitch/BrokerMetadata.java, TempBrokerMetadata.java.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gantrymq.errors import ConfigError, StoreDamaged
from gantrymq.plugin.world import FileLocks, FileTree, Lock


class BrokerId(NamedTuple):
    """An id of the controller, applied for or granted."""

    broker_id: int
    check_code: str = ""  # of an application


def in_use(broker_id: int, address: str, file: Path) -> str:
    """Return the sentence about a broker that has the identity of one that is alive."""
    return (
        f"broker id {broker_id} is alive at {address}: this store is a copy of its, with the same {file.name}. Empty "
        "this store folder, so that this broker becomes a new member of the set. If that was this broker at an earlier "
        "address, it joins when the engine has noticed the end there"
    )


def lock_identity(files: FileLocks, path: Path, root: Path) -> Lock | None:
    """Keep other brokers of this machine from using ``brokerIdentity`` at *path*, until the lock is released.

    None in the store folder *root*, which has a lock of its own.

    Raises:
        ConfigError: another broker uses it. The engine would refuse that one only while this one is alive.
    """
    if path.parent == root:
        return None
    lock = files.lock(path.with_name(f"{path.name}-lock"), b"lock")
    if lock is None:
        raise ConfigError(
            f"storePathBrokerIdentity: {path} is in use by another broker on this machine; give each broker a file of "
            "its own"
        )
    return lock


class IdentityFiles:
    """Reads and replaces the files. Its methods block."""

    def __init__(self, files: FileTree, path: Path, cluster: str, broker: str) -> None:
        """*path*: of ``brokerIdentity``.

        Raises:
            ConfigError: a name contains the separator, which the files cannot express.
        """
        for key, name in (("brokerClusterName", cluster), ("brokerName", broker)):
            if "#" in name:
                raise ConfigError(f"{key}={name}: names of brokers with elected roles contain no '#', as in RocketMQ")
        self._files, self._path, self._cluster, self._broker = files, path, cluster, broker
        self._applied = path.with_name(f"{path.name}-temp")

    def granted(self) -> BrokerId | None:
        """Return the identity; None if this broker has none yet.

        Raises:
            StoreDamaged: the file belongs to another broker, or is damaged.
        """
        found = self._read(self._path, 3)
        return None if found is None else BrokerId(int(found[2]))

    def applied(self) -> BrokerId | None:
        """Return an application that may have succeeded; None if there is none. Raises as `granted`."""
        found = self._read(self._applied, 4)
        return None if found is None else BrokerId(int(found[2]), found[3])

    def apply(self, identity: BrokerId) -> None:
        """Keep an application, before it is sent."""
        text = f"{self._cluster}#{self._broker}#{identity.broker_id}#{identity.check_code}"
        self._files.replace(self._applied, text.encode())

    def grant(self, broker_id: int) -> None:
        """Keep the identity; the application is not needed any more."""
        self._files.replace(self._path, f"{self._cluster}#{self._broker}#{broker_id}".encode())
        self._files.remove(self._applied)

    def refuse(self) -> None:
        """Forget an application that the controller refused."""
        self._files.remove(self._applied)

    def _read(self, path: Path, parts: int) -> list[str] | None:
        if self._files.stat(path) is None:
            return None
        found = self._files.read(path).decode(errors="replace").strip().split("#")
        if len(found) != parts or not (found[2].isascii() and found[2].isdigit() and int(found[2])):
            raise StoreDamaged(
                f"{path} is damaged. Restore it from a backup; without the file this broker becomes a new member of "
                "its set, with a new id"
            )
        if found[:2] != [self._cluster, self._broker]:
            raise StoreDamaged(
                f"{path} is the identity of broker {found[1]} in cluster {found[0]}, but this is broker {self._broker} "
                f"in cluster {self._cluster}: this store belongs to another set of brokers"
            )
        return found
