"""The failure in a dead letter's headers, in each dialect found in the wild. Pure.

Each dialect has one function. It takes `Said`, the headers of a letter, and returns a `Failure`, or
None where the headers are not of its dialect. `reading` tries them in turn, ours first: a letter of
another system that a worker of ours took and failed is ours.

A header may come several times. For the origin of the record the first one counts, for the failure
the last one (contract, section 7). SmallRye writes its own headers before the others, so there the
first one always counts.

Not obvious: Connect and Streams give a letter the time of the record that failed, so the time of
the failure is unknown. Karafka puts the partition into the letter's key, and the key into a header.
"""
