"""Shared by both kinds of schemas: the length of a fault's text, and the error of a bad schema."""

from __future__ import annotations

from feedback.errors import SettingsError

# The most faults named for one value, and the most characters of the path of each.
SHOWN = 5
PLACE_LIMIT = 100


class SchemaError(SettingsError):
    """A schema cannot be used; the message names the file and the fault."""

    entry = "error-schemaerror"
