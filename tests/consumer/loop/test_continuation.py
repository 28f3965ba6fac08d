"""What follows a run without an end, by effect and policy."""

import pytest

from consumer.handlers.declaration import EffectKind, InDoubtPolicy
from consumer.loop.continuation import NextStep, after_run, policy_of_dead

EXTERNAL, MARKED, TRANSACTIONAL = (
    EffectKind.EXTERNAL,
    EffectKind.MARKED,
    EffectKind.TRANSACTIONAL,
)
BY_POLICY = {
    InDoubtPolicy.PARK: NextStep.PARK,
    InDoubtPolicy.RETRY_SAME_KEY: NextStep.SAME_KEY,
    InDoubtPolicy.QUERY: NextStep.ASK,
}


@pytest.mark.parametrize("policy", list(InDoubtPolicy))
def test_a_transactional_run_left_nothing_whatever_the_policy(policy: InDoubtPolicy) -> None:
    for begun in (False, True):
        assert after_run(TRANSACTIONAL, policy, effect_begun=begun) is NextStep.RUN_AGAIN


@pytest.mark.parametrize("policy", list(InDoubtPolicy))
def test_a_marked_run_left_nothing_before_its_effect(policy: InDoubtPolicy) -> None:
    assert after_run(MARKED, policy, effect_begun=False) is NextStep.RUN_AGAIN
    assert after_run(MARKED, policy, effect_begun=True) is BY_POLICY[policy]


@pytest.mark.parametrize("policy", list(InDoubtPolicy))
def test_a_plain_external_run_is_in_doubt_from_its_start(policy: InDoubtPolicy) -> None:
    for begun in (False, True):
        assert after_run(EXTERNAL, policy, effect_begun=begun) is BY_POLICY[policy]


PARK, SAME_KEY, QUERY = InDoubtPolicy.PARK, InDoubtPolicy.RETRY_SAME_KEY, InDoubtPolicy.QUERY


@pytest.mark.parametrize(
    ("claimed", "declared", "decides"),
    [
        (None, SAME_KEY, SAME_KEY),
        (PARK, PARK, PARK),
        (PARK, SAME_KEY, PARK),  # its call may have had no key
        (PARK, QUERY, PARK),
        (SAME_KEY, PARK, PARK),
        (SAME_KEY, SAME_KEY, SAME_KEY),
        (SAME_KEY, QUERY, QUERY),
        (QUERY, PARK, PARK),
        (QUERY, SAME_KEY, PARK),  # and who would be asked is not declared any more
        (QUERY, QUERY, QUERY),
        ("of a newer version", SAME_KEY, PARK),
    ],
)
def test_of_two_policies_the_stricter_decides_about_a_dead_run(
    claimed: str | None, declared: InDoubtPolicy, decides: InDoubtPolicy
) -> None:
    assert policy_of_dead(claimed, declared) is decides
