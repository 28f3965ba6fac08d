"""The client on a real Kafka and a real Redis; the tests play the worker's part (`acting`)."""
