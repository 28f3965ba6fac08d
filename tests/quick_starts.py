"""What lets the many brokers or Sparks of the tests start in a part of the time; written once.

A broker's takes six seconds, and `make test` starts some forty. Spark's takes half a minute: that
pays for the many starts of `make test-long`, and not for the three of `make test`.
"""

import sys

from tests.kit.in_words import in_words
from tests.spark_audit import classes as of_spark
from tests.stack import classes as of_the_broker

WRITES = {"broker": of_the_broker.write_classes, "spark": of_spark.write_classes}

if __name__ == "__main__":
    with in_words():
        for wanted in sys.argv[1:]:
            WRITES[wanted]()
