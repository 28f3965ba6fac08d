"""Health: progress, its watch, and what is served of it."""
