"""The road of single requests, from `send` to the end of `wait`: where each millisecond goes.

    python -m tests.bench --road --only onceward-sqlite --cases rate-50,rate-200 --rounds 1

Client, worker and children write a mark for each step of each request (`marks`); all of a machine
share one monotonic clock. `worker` and `client` mark the product's own calls from outside, so the
product knows nothing of it. `table` makes medians of the steps. A mark costs some 5 µs.
"""
