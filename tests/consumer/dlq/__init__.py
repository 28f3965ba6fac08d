"""Reading dead letters, and what people do about them."""
