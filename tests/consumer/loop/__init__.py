"""The loop, its parts, and the sweeper."""
