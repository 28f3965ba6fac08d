"""Dead letters: what they say, who writes them, and what may be in their way."""
