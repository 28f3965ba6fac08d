"""What both kinds of schemas share: how much is said of a fault, and a schema that is none."""

from __future__ import annotations

from feedback.errors import SettingsError

# Faults of one value, and characters of the place of each.
SHOWN = 5
PLACE_LIMIT = 100


class SchemaError(SettingsError):
    """A schema cannot be used; the sentence names the file and what is wrong with it."""
