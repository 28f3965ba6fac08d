"""The examples in docstrings are true."""

import doctest
import importlib
import pkgutil

import pytest

import consumer
import docs
import feedback
import onceward
import producer_client
import spark_audit

# Importing these runs them: a command line, Alembic's own context, Sphinx' settings.
NOT_IMPORTED = ("__main__", ".migrations", "checkout.backend", "docs.conf")


def _modules() -> list[str]:
    return [
        found.name
        for room in (feedback, consumer, producer_client, spark_audit, onceward, docs)
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
        if not any(part in found.name for part in NOT_IMPORTED)
    ]


@pytest.mark.parametrize("name", _modules())
def test_every_example_of_a_module_gives_what_it_says(name: str) -> None:
    runner = doctest.DocTestRunner()
    for one in doctest.DocTestFinder().find(importlib.import_module(name), name):
        # To run one without examples would still look at all files that Python has cached.
        if one.examples:
            runner.run(one)
    assert runner.failures == 0
