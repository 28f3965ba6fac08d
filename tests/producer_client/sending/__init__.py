"""Sends: the first, another one, many, and those that fail."""
