"""The submitting process: its loop (`serving`), its open loop, and our side of it (`process`)."""
