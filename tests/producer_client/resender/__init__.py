"""What the resender sends again, when, and what it leaves alone."""
