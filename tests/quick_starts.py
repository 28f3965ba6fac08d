"""What lets the many brokers and Sparks of the tests start in a part of the time; written once.

It takes a minute, so it is no part of what a single broker or Spark waits for.
"""

from onceward.servers import classes as of_the_broker
from tests.spark_audit import classes as of_spark

if __name__ == "__main__":
    of_the_broker.write_classes()
    of_spark.write_classes()
