"""Kafka in KRaft mode: brokers that are their own controllers (several: see `cluster`)."""

import base64
import shutil
import signal
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from onceward.servers.jars import FEATURES, classes_file, features_file, jars_folder
from onceward.servers.keeper import ServerCommand
from onceward.servers.packages import program
from onceward.servers.ports import HOST, free_port

HEAP_MIB = 512
OFFSETS_PARTITIONS = 4
# Settings of a broker that is to be killed: it keeps its partitions for 9 s by default, and its
# node id as well, so that it cannot be started again before.
SOON_MISSED = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
# Where people speak Turkish, Kafka looks for its own words with a capital that they do not have.
JVM = (
    *("-XX:+UseSerialGC", "-XX:-UsePerfData", "-Duser.language=en"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
# Compiles less and worse: a start takes two thirds of the processor's time.
FIRST_TIER = "-XX:TieredStopAtLevel=1"


def new_cluster_id() -> str:
    """Return a cluster id as Kafka writes them: 16 random bytes in URL-safe base 64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker and controller of a cluster.

    Several with one `cluster_id` and the same `voters` are one cluster.

    Args:
        advertised: the address clients are told, when it is not its own (a proxy's).
        voters: node id and controller port of every controller; none: it is alone.
        settings: properties beside its own, or in place of them.
        full_jit: it starts more slowly, and then serves more.
        is_kept: its data outlive it, so they are formatted as Kafka does; they name its controller.
        classes_to: where it writes the classes that it has loaded, when it ends in order.
    """

    kind: ClassVar[str] = "kafka"

    node_id: int = 1
    cluster_id: str = field(default_factory=new_cluster_id)
    port: int = field(default_factory=free_port)
    controller_port: int = field(default_factory=free_port)
    ready_within_s: float = 60.0
    advertised: str = ""
    voters: Mapping[int, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    heap_mib: int = HEAP_MIB
    full_jit: bool = False
    is_kept: bool = False
    classes_to: Path | None = None

    @property
    def name(self) -> str:
        """Name of its folder and log."""
        return f"kafka-{self.node_id}"

    @property
    def address(self) -> str:
        """Bootstrap server."""
        return self.advertised or f"{HOST}:{self.port}"

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        """Write the settings and format the data folder; return the command where a JVM must do it.

        It writes two files, of which one is the same for all brokers: see `classes`.
        """
        _write_properties(folder / "server.properties", self._settings())
        data, kept = folder / "data", features_file()
        if kept.exists() and not self.is_kept:
            data.mkdir()
            shutil.copy(kept, data / FEATURES)
            own = {"version": "1", "cluster.id": self.cluster_id, "node.id": str(self.node_id)}
            _write_properties(data / "meta.properties", own)
            return ()
        options = ["format", f"--cluster-id={self.cluster_id}", "-c", "server.properties"]
        if self.is_kept:
            options.append("--standalone")
        jvm = (FIRST_TIER, *_known_classes(), *JVM)
        argv = self._java(folder, jvm, "kafka.tools.StorageTool", *options)
        return (ServerCommand(argv=argv, folder=folder, log=folder / "format.log"),)

    def command(self, folder: Path) -> ServerCommand:
        """Return the broker's command."""
        classes = (f"-XX:ArchiveClassesAtExit={self.classes_to}",) if self.classes_to else ()
        jit = () if self.full_jit else (FIRST_TIER,)
        jvm = (f"-Xmx{self.heap_mib}m", *jit, *(classes or _known_classes()), *JVM)
        argv = self._java(folder, jvm, "kafka.Kafka", "server.properties")
        # Its data go with it. Members stopped together would even wait for a quorum that is gone.
        is_orderly = self.is_kept or self.classes_to is not None
        at_once = signal.SIGTERM if is_orderly and not self.voters else signal.SIGKILL
        return ServerCommand(
            argv=argv, folder=folder, log=folder / "kafka.log", stop_signal=at_once
        )

    def answers(self, folder: Path) -> bool:
        """Say whether it tells its cluster, this one, and has itself registered in it."""
        # A plain connect first: the client's own attempts back off and would notice later.
        try:
            socket.create_connection((HOST, self.port), timeout=1.0).close()
        except OSError:
            return False
        try:
            admin = KafkaAdminClient(bootstrap_servers=self.address, bootstrap_timeout_ms=5_000)
        except KafkaError:
            return False
        try:
            cluster = admin.describe_cluster()
        except KafkaError:
            return False
        finally:
            admin.close()
        return cluster["cluster_id"] == self.cluster_id and bool(cluster["brokers"])

    def _settings(self) -> dict[str, str]:
        broker, controller = f"{HOST}:{self.port}", f"{HOST}:{self.controller_port}"
        quorum = {"controller.quorum.bootstrap.servers": controller}
        if not self.is_kept:
            members = self.voters or {self.node_id: self.controller_port}
            voters = [f"{node}@{HOST}:{port}" for node, port in members.items()]
            quorum = {"controller.quorum.voters": ",".join(voters)}
        own = {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            # In its own folder: the path may have a comma, or letters that Java reads otherwise.
            "log.dirs": "data",
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }
        return own | quorum | dict(self.settings)

    def _java(self, folder: Path, options: tuple[str, ...], *main: str) -> tuple[str, ...]:
        # Compression libraries unpack themselves into the JVM's temporary folder.
        scratch = f"-Djava.io.tmpdir={folder}"
        return (program("java"), *options, scratch, "-cp", f"{jars_folder()}/*", *main)


def _write_properties(file: Path, properties: Mapping[str, str]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def _known_classes() -> tuple[str, ...]:
    """Return the JVM's option to take classes as an earlier one had them, see `classes`."""
    classes = classes_file()
    return (f"-XX:SharedArchiveFile={classes}",) if classes.exists() else ()
