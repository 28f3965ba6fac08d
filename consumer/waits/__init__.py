"""Requests that must not be lost although no client waits for them (`delivery="at_least_once"`)."""
