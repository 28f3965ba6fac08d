"""A batch in hand, without servers; those with servers are with the waits."""
