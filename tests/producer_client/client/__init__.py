"""The clients as users hold them, and their waits."""
