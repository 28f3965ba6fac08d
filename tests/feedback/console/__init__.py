"""Commands and logs."""
