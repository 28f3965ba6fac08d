"""A person is warned of the letters that may run twice, and of no others."""

from consumer.dlq.redrive.risks import RedriveRisks


def test_letters_without_a_row_are_counted_and_those_that_were_sent_before_among_them() -> None:
    risks = RedriveRisks()
    assert risks.words() == {}
    risks.add(0)
    assert risks.words() == {
        "unknown": "nothing says whether 1 letter without a journal row has run"
    }
    risks.add(2)
    assert (risks.unknown, risks.again, risks.sendings) == (2, 1, 2)
    assert risks.words() == {
        "unknown": "nothing says whether 2 letters without a journal row have run",
        "again": "1 letter was sent back already: it may run twice",
    }
    risks.add(1)
    assert risks.words()["again"] == "2 letters were sent back already: they may run twice"
