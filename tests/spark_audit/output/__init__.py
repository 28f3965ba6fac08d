"""The output folder."""
