"""Declarations, deliveries and requests."""
