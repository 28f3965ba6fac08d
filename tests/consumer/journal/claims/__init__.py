"""Claims, finishes and takeovers, by rule and on both databases."""
