"""Names the group and the database that an answer is about: one about another would mislead."""

from __future__ import annotations

import click

from feedback.console.printable import printable
from feedback.settings.settings import Settings

_SECRET = ("password", "sslpassword")


def source_json(settings: Settings) -> dict[str, str]:
    """Return the group and its journal, without a password."""
    return {"group": settings.kafka.group, "journal": without_password(settings.journal.url)}


def say_source(settings: Settings, *, as_json: bool = False, section: str = "journal") -> None:
    """Tell a person the group and the database of an answer, on standard error.

    Args:
        as_json: whether a program reads the answer: then nothing is said.
        section: of the settings, with the database's URL; empty where none was asked.
    """
    if as_json:
        return
    words = f"group {settings.kafka.group}"
    if section:
        words += f", {section} {without_password(getattr(settings, section).url)}"
    click.echo(printable(words), err=True)


def without_password(url: str) -> str:
    """Return a database's URL with no password in it.

    >>> without_password("postgresql+psycopg://me:secret@db/pay?sslpassword=x")
    'postgresql+psycopg://me:***@db/pay'
    """
    from sqlalchemy import make_url  # takes a while to load, and most commands say no source

    parsed = make_url(url).difference_update_query(_SECRET)
    return parsed.render_as_string(hide_password=True)
