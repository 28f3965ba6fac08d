"""`onceward dev`."""
