"""`onceward-audit`, which says so in one sentence where its extra is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NoReturn

import click

from feedback import __version__
from feedback.console.commands import Group
from feedback.errors import NotAvailable

# The modules of the extra that every command of the audit is loaded with, or ends with.
NEEDED = ("pyspark", "jinja2")


class WithoutExtra(Group):
    """A group whose commands cannot be loaded."""

    def get_command(self, context: click.Context, name: str) -> NoReturn:
        """Refuse every command.

        Raises:
            NotAvailable: the sentence that says how to go on.
        """
        raise NotAvailable("the audit needs PySpark and Jinja2: pip install 'onceward[audit]'")


with_version = click.version_option(__version__)


def audit_cli() -> click.Group:
    """Return the commands of the audit; without its extra a group that refuses each of them."""
    if any(find_spec(name) is None for name in NEEDED):
        told = "Proves from the topics and the journal how each request ended."
        return with_version(WithoutExtra("onceward-audit", help=told))
    from spark_audit.run.commands import cli as commands

    return commands


cli = audit_cli()
