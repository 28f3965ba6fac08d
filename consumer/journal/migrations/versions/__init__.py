"""One file for each version of the journal's tables."""
