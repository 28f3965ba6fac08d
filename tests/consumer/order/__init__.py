"""Order by key."""
