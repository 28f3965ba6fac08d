"""Checks that refuse declarations whose promises cannot be kept; a file for each feature."""
