"""Envelopes, ids, schemas, kept payloads."""
