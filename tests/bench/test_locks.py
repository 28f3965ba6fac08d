"""What the bench compares us with is installed from locked files alone."""

from __future__ import annotations

import re

import pytest

from tests.bench.systems.environments import INSTALL, lock_of, pinned, pins
from tests.bench.systems.peers import PEERS

MAJOR = {"celery": "5.", "dramatiq": "2.", "faststream": "0.7."}
BLOCK = re.compile(r"^\S+==\S+(?: ; .+)?(?: \\\n +--hash=sha256:[0-9a-f]{64})+$", re.MULTILINE)


@pytest.mark.parametrize("product", PEERS)
def test_each_package_of_a_peers_lock_has_hashes(product: str) -> None:
    blocks = BLOCK.findall(lock_of(product).read_text(encoding="utf-8"))
    assert len(blocks) == len(pins(product)) > 2
    assert pinned(product).startswith(MAJOR[product])
    assert "--require-hashes" in INSTALL


@pytest.mark.parametrize("product", ["celery", "dramatiq"])
def test_a_peer_on_redis_has_the_fast_parser_of_its_answers(product: str) -> None:
    assert "hiredis" in pins(product)
