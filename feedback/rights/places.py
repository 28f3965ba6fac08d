"""Where the users of the settings log in, and by which names. Pure."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from feedback.settings.settings import Settings


def database_urls(settings: Settings) -> dict[str, str]:
    """Return the URL of each database, by its section; empty where there is none."""
    journal = settings.journal.url
    return {
        "journal": journal,
        "registry": settings.registry.url or journal,
        "outbox": settings.outbox.url,
    }


def user_of(url: str) -> str:
    """Return the user that a URL names; empty where it names none.

    >>> user_of("rediss://bank%40payments:secret@cache:6379/0")
    'bank@payments'
    """
    return unquote(urlsplit(url).username or "")
