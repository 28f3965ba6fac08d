"""`onceward-client` as users call it."""
