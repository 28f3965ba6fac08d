"""Statuses told, and the worker's signs of life."""
