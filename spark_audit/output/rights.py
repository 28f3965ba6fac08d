"""The rights of the audit's files."""

from __future__ import annotations

EVERYBODY = 0o644
# For payloads.
OWNER_ONLY = 0o600
