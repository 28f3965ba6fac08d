"""Automatic retries."""
