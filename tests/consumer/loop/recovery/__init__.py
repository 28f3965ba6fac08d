"""What a worker does with the claims of dead ones."""
