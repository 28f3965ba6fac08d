"""All peers, by the systems of a plan."""

from __future__ import annotations

from collections.abc import Mapping

from tests.bench.plan import System
from tests.bench.systems.celery import CELERY
from tests.bench.systems.dramatiq import DRAMATIQ
from tests.bench.systems.faststream import FASTSTREAM
from tests.bench.systems.peer import Peer

PEERS: Mapping[System, Peer] = {
    System.CELERY: CELERY,
    System.DRAMATIQ: DRAMATIQ,
    System.FASTSTREAM: FASTSTREAM,
}
