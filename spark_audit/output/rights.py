"""Who may read what an audit writes, as the rights of a file."""

from __future__ import annotations

EVERYBODY = 0o644
# For payloads.
OWNER_ONLY = 0o600
