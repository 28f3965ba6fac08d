"""The broker in memory: the faults that tests plant there, and its groups beyond the contract."""
