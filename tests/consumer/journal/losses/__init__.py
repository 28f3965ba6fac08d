"""What is written again after the database or Redis has lost it."""
