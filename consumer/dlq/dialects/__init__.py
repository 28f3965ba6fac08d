"""The failure in a dead letter's headers, in each dialect found in the wild. Pure.

`header_formats` has the header names of each dialect, in the order in which they are tried;
`letter_headers` makes a letter by it, from the headers of a record.

A header may come several times. For the origin of the record the first one counts, for the failure
the last one (docs: Kafka records). SmallRye writes its own headers before the others, so there the
first one always counts.

Not obvious: Connect and Streams give a letter the time of the record that failed, so the time of
the failure is unknown. Karafka puts the partition into the letter's key, and the key into a header.
"""
