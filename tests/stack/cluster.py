"""Three brokers that are one cluster: one of them may be killed and the cluster still serves."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from onceward.servers.errors import StackError
from onceward.servers.kafka import OFFSETS_PARTITIONS, SOON_MISSED, Broker, new_cluster_id
from onceward.servers.keeper import Keeper
from onceward.servers.launch import ATTEMPTS, PORT_TAKEN
from onceward.servers.ports import free_port
from tests.eventually import eventually
from tests.stack.installing import install
from tests.stack.restartable import Restartable

NODES = (1, 2, 3)
HEAP_MIB = 256
COMPLETE_LIMIT_S = 60.0
LEADER_LIMIT_S = 30.0
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    **SOON_MISSED,
}


class Cluster:
    """Three brokers, each of which may be stopped, killed, paused and started again."""

    def __init__(self, keeper: Keeper) -> None:
        brokers = _choose()
        with ThreadPoolExecutor(len(brokers)) as threads:
            # Its ports are known to the others: none can be chosen again for one alone.
            made = [threads.submit(Restartable, keeper, partial(_itself, one)) for one in brokers]
        self.brokers = dict(zip(NODES, [one.result() for one in made], strict=True))
        self.await_complete()

    @property
    def address(self) -> str:
        """Bootstrap servers: all three."""
        return ",".join(one.address for one in self.brokers.values())

    def leader(self, topic: str, partition: int = 0) -> Restartable:
        """Return the broker that leads a partition, waiting for one that is up."""
        found: list[Restartable] = []

        def is_up() -> bool:
            found[:] = [self.brokers[one] for one in self._leaders(topic, partition)]
            return any(one.is_up for one in found)

        eventually(is_up, timeout_s=LEADER_LIMIT_S, interval_s=0.1, what=f"leader of {topic}")
        return found[0]

    def coordinator(self, group: str) -> Restartable:
        """Return the broker that coordinates a group: it leads the group's offsets."""
        return self.leader("__consumer_offsets", java_hash(group) % OFFSETS_PARTITIONS)

    def await_complete(self) -> None:
        """Return when all three have joined.

        Raises:
            TimeoutError: not within a minute.
        """
        eventually(self._is_complete, timeout_s=COMPLETE_LIMIT_S, interval_s=0.2)

    def _leaders(self, topic: str, partition: int) -> list[int]:
        """Return the node that leads, or none when nobody does or nobody can be asked."""
        try:
            with KafkaAdminClient(bootstrap_servers=self._up()) as admin:
                (found,) = admin.describe_topics([topic])
        except KafkaError:
            return []
        leaders = {one["partition_index"]: one["leader_id"] for one in found["partitions"]}
        return [leaders[partition]] if leaders.get(partition, -1) in self.brokers else []

    def _up(self) -> list[str]:
        return [one.address for one in self.brokers.values() if one.is_up]

    def _is_complete(self) -> bool:
        try:
            with KafkaAdminClient(bootstrap_servers=self.address) as admin:
                return len(admin.describe_cluster()["brokers"]) == len(NODES)
        except KafkaError:
            return False


def java_hash(text: str) -> int:
    """Return Java's hash of an ASCII text, without its sign, as Kafka takes it.

    >>> java_hash("payments")
    1382682413
    """
    hashed = 0
    for letter in text:
        hashed = (31 * hashed + ord(letter)) & 0xFFFFFFFF
    return hashed & 0x7FFFFFFF


def _choose() -> list[Broker]:
    cluster_id = new_cluster_id()
    voters = {node: free_port() for node in NODES}
    return [
        Broker(
            node_id=node,
            cluster_id=cluster_id,
            controller_port=voters[node],
            voters=voters,
            settings=SETTINGS,
            heap_mib=HEAP_MIB,
        )
        for node in NODES
    ]


def _itself(broker: Broker) -> Broker:
    return broker


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Yield a cluster with a keeper of its own, gone after the block.

    Raises:
        StackError: it is not installed or did not start.
    """
    install([Broker.kind])
    for attempt in range(1, ATTEMPTS + 1):
        with Keeper() as keeper:
            try:
                started = Cluster(keeper)
            except StackError as error:
                if attempt == ATTEMPTS or PORT_TAKEN not in str(error).lower():
                    raise
            else:
                yield started
                return
