"""`onceward-worker workers`."""
