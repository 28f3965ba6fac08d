"""Alerts: what is news, what is one message of many, what is posted, and whom it costs nothing."""
