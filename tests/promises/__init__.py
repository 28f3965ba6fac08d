"""The ledger of promises: what the documents say, and what turns red when it is not so.

`readme.txt` and `contract.txt` are written by hand: sentences (those that stand together share what
is below them), and indented what watches over them:

    The offset is committed before a request is dispatched
        property nothing is dispatched before its offset is committed
        test tests/outages/test_kafka.py::test_a_refused_commit_drops_its_records
        chaos kafka-away

`test` is a function of the suite, `property` an invariant of the simulation, `chaos` a row of
`make chaos`, `open` why there is none of these. `ledger` reads the files, `proofs` knows what there
is, and `test_ledger` says what is missing: a sentence that no document has, a test that was
renamed, a promise that nobody watches over. `python -m tests.promises` prints the table.

Not obvious: the documents, README and docs/, are quoted in fragments, as short as they can be and
still be found once, so that their lines can be filled anew. Those in `contract.txt` state a rule.
"""
