"""Reads a dead letter's headers, in each dialect that is found in the wild. Pure.

One function for each dialect takes `Said`, the headers of a letter, and returns a `Failure`, or
None where the headers are not of its dialect. `reading` asks them in turn: ours first, because a
letter of somebody else that a worker of ours took and failed is ours.

Of several headers of one name, the first counts where it says where the record came from, and the
last where it says why it failed (contract, section 7). SmallRye writes its own before those that
were there, so that there it is the first of all.

Not obvious: Connect and Streams give a letter the time of the record that failed, so such a letter
says nothing of when it failed. Karafka puts the partition into the letter's key, and the key into a
header.
"""
