"""Pages over HTTP."""
