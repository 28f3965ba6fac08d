"""The contract of the journal, on SQLite and on PostgreSQL."""
