"""What the audit says: figures, verdict, files, page and messages."""
