"""Redis: the store, the script, events."""
