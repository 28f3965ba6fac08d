"""Handlers of dead letters: what is declared of them, and the letter that they are given."""
