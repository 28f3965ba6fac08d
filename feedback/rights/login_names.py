"""Where the users of the settings log in, and by which names. Pure."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, unquote, urlsplit

from feedback.settings.settings import KafkaSection, Settings

# Kafka's own name of a user without a login.
NOBODY = "ANONYMOUS"
# As libpq's `options` say it; the first of several schemas is where tables are made.
_SEARCH_PATH = re.compile(r"-c\s*search_path=\"?([^\s,\"]+)")


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


def user_of_kafka(kafka: KafkaSection) -> str:
    """Return the user that Kafka knows by these settings, or `<the place of its name>`.

    >>> user_of_kafka(KafkaSection(security_protocol="SSL", ssl_certfile="bank.pem"))
    '<subject of bank.pem>'
    """
    if kafka.security_protocol.startswith("SASL"):
        return kafka.sasl_plain_username or f"<user of the {kafka.sasl_mechanism} login>"
    if kafka.security_protocol == "SSL" and kafka.ssl_certfile:
        return f"<subject of {kafka.ssl_certfile}>"
    return NOBODY


def schema_of(url: str) -> str:
    """Return the schema that a PostgreSQL URL makes its own by `options`; else `public`.

    >>> schema_of("postgresql://host/bank?options=-csearch_path%3Dpayments")
    'payments'
    """
    options = " ".join(parse_qs(urlsplit(url).query).get("options", ()))
    found = _SEARCH_PATH.search(options)
    return found[1] if found else "public"
