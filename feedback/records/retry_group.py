"""The consumer group that reads a group's retry topics. Pure."""


def retry_group(group: str) -> str:
    """Return the consumer group of the members that read retry topics.

    It is not the workers' own group. A member there with another subscription would double the
    rebalances of each start and end. A rebalance stops the reading of requests until the slowest
    member has sent its heartbeat: measured, 1 to 3 s of a burst of 5 s.

    >>> retry_group("payments")
    'payments.retry'
    """
    return f"{group}.retry"
