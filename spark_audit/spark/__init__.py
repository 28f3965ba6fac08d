"""Spark itself: its `session`, the `jars` that it needs, and `rows` of the driver as a frame."""
