"""Handlers of dead letters: their declaration, and the letter that they are given."""
