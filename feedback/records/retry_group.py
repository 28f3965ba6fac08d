"""Under which consumer group the retry topics of a group are read. Pure."""


def retry_group(group: str) -> str:
    """Return the consumer group of the members that wait for retries.

    It is not the workers' own: a member of theirs with another subscription would double the
    rebalances of each start and end, and each stops the reading of requests for as long as the
    slowest member's heartbeat takes: measured as 1 to 3 s of a burst of 5 s.

    >>> retry_group("payments")
    'payments.retry'
    """
    return f"{group}.retry"
