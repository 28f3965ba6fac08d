"""Rows that nobody goes on with, and old ones."""
