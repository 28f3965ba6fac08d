"""Spark and its jars."""
