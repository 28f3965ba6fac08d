"""What the bench compares us with is installed from locked files alone."""

from __future__ import annotations

import re

from tests.bench.systems.celery_environment import INSTALL, LOCK, pinned, pins


def test_each_package_of_celerys_lock_has_hashes() -> None:
    text = LOCK.read_text(encoding="utf-8")
    blocks = re.findall(r"^\S+==\S+(?: \\\n +--hash=sha256:[0-9a-f]{64})+$", text, re.MULTILINE)
    assert len(blocks) == len(pins()) > 10
    assert pinned("celery").startswith("5.")
    assert "--require-hashes" in INSTALL
