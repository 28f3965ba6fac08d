"""`delivery="batch"`: a batch is read, runs, and is committed when all of it has ended."""
