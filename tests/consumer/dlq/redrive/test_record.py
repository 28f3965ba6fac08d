"""What is sent back: the user's record, with what a redrive says of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.dlq.dialects.letter_headers import letter_of
from consumer.dlq.filter import LetterFilter
from consumer.dlq.letter import Dialect, Letter
from consumer.dlq.redrive.record import attempt_of, candidate_of, sending_of, sent_by
from consumer.dlq.redrive.redrive_plan import FieldValue, RedrivePlan, chunk_size
from consumer.features.dead_letters.letter import letter_headers
from consumer.journal.records import Row
from consumer.journal.redrive.redrive_rule import Redrivable
from consumer.journal.redrive.reopening import replacement_id
from consumer.journal.waiting import OwedRow
from feedback.kafka.outgoing import Outgoing
from feedback.records.envelope import (
    FIRST,
    Envelope,
    Headers,
    Record,
    decode_headers,
    payload_sha256,
)
from tests.consumer.dlq.test_dialects import (
    CONNECT,
    KARAFKA,
    SHARE,
    SMALLRYE,
    SPRING,
    SPRING_KEY,
    SPRING_RETRY,
    STREAMS,
)
from tests.consumer.journal.samples import row

KARAFKA_BEFORE_2_5 = tuple((name.replace("source", "original"), value) for name, value in KARAFKA)
SENT = Record("payments", 3, 17, 50, b"k", b"v", (("tenant", b"7"), ("tenant", b"8")))


def failed(**changes: object) -> Row:
    given = {"state": "FAILED", "claimed_at": 10, "finished_at": 20, "code": "NO", "message": "no"}
    given["payload_sha256"] = payload_sha256(SENT.key, SENT.value)
    return row("a", **(given | changes))


def letter(record: Record = SENT, of: Row | None = None, **headers: bytes) -> Letter:
    """Return the letter that a worker writes, as it is read again."""
    of = of or failed()
    written = letter_headers(OwedRow(of, 15), record, group="g", raised=None)
    added = tuple(headers.items())
    return letter_of(
        Record("payments.g.dlq", 3, 99, 60, record.key, record.value, (*written, *added))
    )


def sent(one: Letter, of: Row | None, **changes: object) -> Outgoing:
    given: dict[str, object] = {
        "group": "g",
        "redrive_id": "r",
        "by": "zoe",
        "attempt": 4,
        "deadline_at": 900,
    }
    return sending_of(one, of, **(given | changes)).outgoing  # type: ignore[arg-type]


def test_key_value_and_the_users_headers_go_back_untouched_with_one_attempt_more() -> None:
    back = sent(letter(), failed())
    assert (back.topic, back.partition, back.key, back.value) == ("payments", None, b"k", b"v")
    envelope = decode_headers(SENT._replace(headers=back.headers))
    # The failure that was reopened, and no later one.
    assert envelope == Envelope("a", 5, 900, 1)
    read_by = [decode_headers(SENT._replace(headers=back.headers), group=one) for one in ("g", "h")]
    assert [one.reopens for one in read_by] == [1, 0]
    of_none = decode_headers(SENT._replace(headers=sent(letter(), None).headers))
    assert of_none.reopens is None
    assert back.headers[:2] == SENT.headers
    found = dict(back.headers)
    assert (found["DLQ_REDRIVE_COUNT"], found["DLQ_REDRIVE_ID"]) == (b"1", b"r")
    assert (found["ORIGINAL_OFFSET"], found["ORIGINAL_TIMESTAMP"]) == (b"17", b"50")
    left = {name for name in found if name.startswith("DLQ_")}
    assert left == {"DLQ_REDRIVE_COUNT", "DLQ_REDRIVE_ID", "DLQ_REDRIVE_BY"}


def test_a_redrive_repeats_no_earlier_record() -> None:
    resent = SENT._replace(headers=(*SENT.headers, (FIRST, b"%s/3/5/-1" % SENT.topic.encode())))
    back = sent(letter(resent), failed())
    assert FIRST not in dict(back.headers)
    assert decode_headers(SENT._replace(headers=back.headers)) == Envelope("a", 5, 900, 1)


def test_a_second_redrive_counts_on_and_says_its_own_name_once() -> None:
    first = sent(letter(), failed())
    again = letter(SENT._replace(headers=first.headers), failed(generation=2, attempt=5))
    assert candidate_of(again) == ("a", 2, payload_sha256(b"k", b"v"), 1, False, "r", None)
    second = sent(again, failed(generation=2), redrive_id="s")
    names = [name for name, _ in second.headers]
    assert names.count("DLQ_REDRIVE_ID") == names.count("onceward-attempt") == 1
    assert dict(second.headers)["DLQ_REDRIVE_COUNT"] == b"2"
    assert (sent_by(second.headers, "s"), sent_by(second.headers, "r")) == ("a", None)


def test_without_a_key_it_goes_to_its_partition_and_a_tombstone_stays_one() -> None:
    keyless = SENT._replace(key=None)
    assert sent(letter(keyless), failed(partition=3)).partition == 3
    assert sent(letter(keyless), None).partition == 3
    tombstone = sent(letter(SENT._replace(value=None)), failed())
    assert (tombstone.key, tombstone.value) == (b"k", None)


def test_it_goes_to_the_topic_of_its_box_whatever_its_producer_says_of_its_origin() -> None:
    said = (("ORIGINAL_TOPIC", b"refunds"), ("ORIGINAL_PARTITION", b"9"))
    claimed = letter(SENT._replace(key=None, headers=said))
    assert (claimed.topic, claimed.home) == ("refunds", "payments")
    for of, partition in ((failed(partition=3), 3), (None, None)):
        back = sent(claimed, of)
        assert (back.topic, back.partition) == ("payments", partition)
    mirrored = letter_of(claimed.record._replace(topic="copies"))
    assert (mirrored.home, sent(mirrored, failed()).topic) == ("refunds", "refunds")


def test_a_replacement_is_a_new_request_that_names_the_old_one() -> None:
    back = sent(letter(), failed(), value=b"w", replaces=True)
    envelope = decode_headers(SENT._replace(headers=back.headers))
    assert envelope == Envelope(replacement_id("r", "a"), 1, 900)
    assert (back.key, back.value) == (b"k", b"w")
    assert dict(back.headers)["onceward-replaces"] == b"a"
    assert sent_by(back.headers, "r") == "a"


def test_another_dead_letter_queues_words_are_no_headers_of_the_user() -> None:
    foreign = letter_of(
        Record(
            *("connect-dlq", 0, 1, 60, b"k", b"v"),
            (
                ("__connect.errors.topic", b"payments"),
                ("__connect.errors.partition", b"2"),
                ("__connect.errors.offset", b"9"),
                ("tenant", b"7"),
            ),
        )
    )
    back = sent(foreign, None, attempt=attempt_of(foreign))
    assert back.topic == "payments"
    assert not any(name.startswith("__connect") for name, _ in back.headers)
    assert dict(back.headers)["tenant"] == b"7"
    assert candidate_of(foreign).generation is None


@pytest.mark.parametrize(
    ("own", "users"),
    [
        (CONNECT, ["errors", "connect.errors"]),
        (STREAMS, ["streams.errors"]),
        (SHARE, ["dlq.errors"]),
        (SPRING, ["kafka_correlationId", "retry_topic", "spring_json_header_types"]),
        (SPRING_RETRY, ["kafka_replyTopic", "retry_topic-attempts-of-mine"]),
        (SPRING_KEY, ["exception-fqcn"]),
        (SMALLRYE, ["dead-letter-box", "reason"]),
        (KARAFKA, ["source_system", "original_topic", "source_topics"]),
        (KARAFKA_BEFORE_2_5, ["original_amount", "source_ip"]),
    ],
)
def test_of_anothers_letter_the_users_headers_go_back_and_its_own_do_not(
    own: Headers, users: list[str]
) -> None:
    given = tuple((name, name.encode()) for name in [*users, "traceparent", *users[:1]])
    taken = letter_of(Record("box", 0, 1, 60, b"0", b"v", (*given[:1], *own, *given[1:])))
    assert taken.dialect is not Dialect.NONE
    back = sent(taken, None, attempt=attempt_of(taken))
    ours = ("onceward-", "DLQ_REDRIVE_")
    assert tuple(one for one in back.headers if not one[0].startswith(ours)) == given


def test_what_was_refused_for_anothers_id_says_so() -> None:
    refused = failed(code="PAYLOAD_MISMATCH", claimed_at=None)
    taken = SENT._replace(headers=(("onceward-request-id", b"other"),))
    assert candidate_of(letter(taken, refused)).is_anothers
    assert candidate_of(letter(taken, refused)).generation == 0
    assert not candidate_of(letter()).is_anothers


def test_hostile_numbers_are_no_attempt() -> None:
    for text in (b"", b"x", b"-1", b"9" * 30, "\u0663".encode()):
        hostile = SENT._replace(headers=(("onceward-attempt", text),))
        assert attempt_of(letter_of(hostile)) == 0


def test_once_more_is_of_what_was_sent_before_the_look_that_a_person_has_confirmed() -> None:
    plan = RedrivePlan(LetterFilter(), sends_again=True)
    looked = replace(plan, looked_at=7)
    assert (plan.wish("r", began_at=9).began_at, looked.wish("r", began_at=9).began_at) == (9, 7)
    # A further look tells of all.
    assert looked.wish("", began_at=None).began_at is None


def test_a_letter_of_any_writer_names_the_redrive_that_has_sent_it() -> None:
    theirs = Record(
        *("their-dlq", 0, 5, 1_700_000_000_000, b"k", b"v"),
        (("kafka_dlt-exception-fqcn", b"a.B"), ("DLQ_REDRIVE_ID", b"r\xff")),
    )
    assert candidate_of(letter_of(theirs)).redrive_id == "r\ufffd"
    assert candidate_of(letter()).redrive_id is None


def test_a_plan_survives_the_journal() -> None:
    plan = RedrivePlan(
        filter=LetterFilter(ids=frozenset({"a", "b"}), since_ms=5),
        topics=frozenset({"t"}),
        deadline_s=7.5,
        max_redrives=9,
        takes_unknown=True,
        sends_again=True,
        setting=FieldValue.parse("/a/b=5"),
    )
    assert RedrivePlan.from_json(plan.to_json()) == plan
    looked = replace(plan, looked_at=7)
    assert RedrivePlan.from_json(looked.to_json()) == looked
    assert RedrivePlan.from_json(RedrivePlan(LetterFilter()).to_json()) == RedrivePlan(
        LetterFilter()
    )


@pytest.mark.parametrize("headers", [(), (("kafka_dlt-exception-fqcn", b"a.B"),)])
def test_a_letter_of_unknown_origin_is_left_and_not_sent_into_its_own_queue(
    headers: Headers,
) -> None:
    one = letter_of(Record("others.dlq", 0, 5, 1_700_000_000_000, None, b"{}", tuple(headers)))
    plan = RedrivePlan(LetterFilter(), dlqs=frozenset({"others.dlq"}), takes_unknown=True)
    assert plan.fault_of(one, {"others.dlq", "orders"}) is Redrivable.NO_TOPIC


def test_a_rate_is_kept_in_small_chunks() -> None:
    assert [chunk_size(rate) for rate in (None, 0.1, 1.0, 100.0, 1e6)] == [1000, 1, 1, 50, 1000]
