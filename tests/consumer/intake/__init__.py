"""From Kafka into the buffer."""
