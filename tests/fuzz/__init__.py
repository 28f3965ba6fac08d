"""Any bytes at each boundary that takes those of others."""
