"""Python's connection to Spark's Java after a call that did not wait for its answer."""

from pyspark import SparkContext


def close_connection() -> None:
    """Close this thread's connection; the next call opens another one.

    A limit of time or Ctrl-C ends a call before its answer has come. The connection would give that
    answer to the next call, and each further call the answer of the one before.
    """
    gateway = SparkContext._gateway
    connection = gateway and gateway._gateway_client.get_thread_connection()
    if connection is not None:
        connection.close()
