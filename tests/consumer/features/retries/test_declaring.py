"""Declarations of retries: what could run twice is refused, and what would do nothing."""

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from consumer.features.retries.headers import retry_topics
from consumer.handlers.backoff import Fixed, Tiers
from consumer.handlers.declaration import Handler, HandlerDefinitionError
from consumer.handlers.decorator import handler
from consumer.handlers.errors import EffectRefused, InDoubt, Rejected
from consumer.handlers.registry import DECLARED as declared_handlers
from consumer.handlers.registry import HandlerRegistry
from consumer.handlers.retry_policy import RetryPolicy
from feedback.errors import SettingsError
from tests.documents import documents

_numbers = itertools.count()


def _declare(**settings: Any) -> Handler:
    topic = f"declaring-{next(_numbers)}"

    @handler(topic=topic, **settings)
    def charge(request: object) -> None: ...

    found = declared_handlers.for_topic(topic)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"retry_on": "bank_busy"}, "or codes"),
        ({"never_retry": (5,)}, "never_retry has 5"),
        ({"retry_on": InDoubt}, "does not say that nothing happened"),
        ({"retry_on": (EffectRefused,)}, "does not say that nothing happened"),
        ({"retry_on": Rejected}, "name its codes"),
        ({"retry_on": OSError, "never_retry": OSError}, "never_retry rules out"),
        ({"retry_on": ConnectionError, "never_retry": OSError}, "never_retry rules out"),
        ({"retry_on": "BUSY", "never_retry": "BUSY"}, "never_retry rules out"),
        ({"retry_on": Exception}, "would happen twice"),
        ({"retry_on": BaseException, "effect": "marked"}, "would happen twice"),
        ({"retries": "1s"}, "needs retry_on="),
        ({"blocking": "10ms"}, "needs retry_on="),
        ({"retry_on": OSError, "retries": "soon"}, "duration like"),
        ({"retry_on": OSError, "retries": 5}, "write tiers like"),
        ({"retry_on": OSError, "retries": "1s", "retries_within_s": 0}, "retries_within_s=0"),
        ({"retry_on": OSError, "blocking": "1ms", "blocking_within_s": None}, "blocking_within_s"),
        (
            {"retry_on": OSError, "blocking": "1ms", "blocking_within_s": 5, "time_limit_s": 5},
            "for the whole run",
        ),
    ],
)
def test_a_declaration_that_cannot_be_kept_says_what_to_write(
    settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(HandlerDefinitionError) as refused:
        _declare(**settings)
    assert told in str(refused.value)


def test_every_error_may_be_retried_where_a_second_run_does_no_harm() -> None:
    harmless = ({"effect": "transactional"}, {"in_doubt": "retry_same_key"})
    found = [_declare(retry_on=Exception, retries="1s", **one) for one in harmless]
    assert [one.retry_on for one in found] == [(Exception,)] * 2


def test_a_declaration_keeps_what_it_says() -> None:
    found = _declare(
        retry_on=("BANK_BUSY", TimeoutError),
        never_retry="LOCKED",
        follow_causes=True,
        retries="1s x 2, 5s x 2",
        retries_within_s=60,
        blocking=Fixed("10ms", tries=2),
        blocking_within_s=0.1,
    )
    assert found.retry_on == ("BANK_BUSY", TimeoutError)
    assert (found.never_retry, found.follow_causes) == (("LOCKED",), True)
    assert found.retries == Tiers(("1s", 2), ("5s", 2))
    assert (found.retries_within_s, found.blocking_within_s) == (60, 0.1)
    assert found.blocking == Fixed("10ms", tries=2)


def test_a_module_that_is_read_again_may_declare_its_retries_again() -> None:
    registry = HandlerRegistry()
    found = _declare(retry_on=OSError, retries="1s")
    registry.add(found)
    registry.add(found)
    assert registry.for_topic(found.topic) == found


def test_each_delay_of_a_handler_has_a_topic_of_the_group() -> None:
    found = _declare(retry_on=OSError, retries="500ms x 2, 5s, 2m, 1h, 90s")
    names = [f"{found.topic}.g.retry.{delay}" for delay in ("500ms", "5s", "2m", "1h", "90s")]
    topics = retry_topics([found, _declare()], "g")
    assert sorted(topics) == sorted(names)
    assert topics[names[2]] == (found, 120_000)


def test_a_topic_name_that_kafka_does_not_take_is_refused_with_what_to_shorten() -> None:
    with pytest.raises(SettingsError, match="shorten"):
        retry_topics([_declare(retry_on=OSError, retries="1s")], "g" * 230)


def test_our_examples_retry_only_what_cannot_have_reached_anybody() -> None:
    root = Path(__file__).parents[4]
    files = [*(root / "consumer").rglob("*.py"), *(root / "config").rglob("*")]
    texts = [path.read_text(errors="replace") for path in files if path.is_file()]
    found = [
        named
        for text in (*documents().values(), *texts)
        for named in re.findall(r"retry_on=(\([^)]*\)|\w+)", text)
    ]
    assert any("ConnectionRefusedError" in named for named in found)
    assert not [named for named in found if re.search(r"\bConnection(Reset)?Error", named)]


def test_a_policy_says_what_the_keywords_say_and_is_shared() -> None:
    flat = _declare(
        retry_on=("BUSY", OSError),
        never_retry=FileNotFoundError,
        follow_causes=True,
        retries="1s x 2",
        retries_within_s=60,
        blocking="20ms",
        blocking_within_s=0.2,
    )
    bank = RetryPolicy(
        on=(one for one in ("BUSY", OSError)),
        never=FileNotFoundError,
        follow_causes=True,
        backoff="1s x 2",
        within_s=60,
        blocking="20ms",
        blocking_within_s=0.2,
    )
    for one in (_declare(retries=bank), _declare(retries=bank)):
        assert replace(one, topic=flat.topic, function=flat.function) == flat


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        ({"retry_on": OSError}, "retry_on= beside retries=RetryPolicy(...): write on= in"),
        ({"never_retry": "BUSY"}, "never_retry= beside retries=RetryPolicy(...): write never="),
        (
            {"retries_within_s": 5},
            "retries_within_s= beside retries=RetryPolicy(...): write with",
        ),
        ({"blocking": "5ms"}, "blocking= beside retries=RetryPolicy(...): write blocking= in"),
        ({"follow_causes": True}, "follow_causes= beside"),
        ({"blocking_within_s": 1}, "blocking_within_s= beside"),
    ],
)
def test_a_keyword_beside_a_policy_is_refused_with_its_name_there(
    beside: dict[str, Any], told: str
) -> None:
    with pytest.raises(HandlerDefinitionError, match=re.escape(told)):
        _declare(retries=RetryPolicy(on="BUSY", backoff="1s"), **beside)


def test_a_policy_is_checked_as_its_keywords_are() -> None:
    with pytest.raises(HandlerDefinitionError, match="or codes"):
        _declare(retries=RetryPolicy(on="bank_busy", backoff="1s"))
    with pytest.raises(HandlerDefinitionError, match="duration like"):
        _declare(retries=RetryPolicy(on=OSError, backoff="soon"))
