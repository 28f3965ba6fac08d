"""What follows a run without an end, by effect and policy."""

import pytest

from consumer.continuation import After, after_run
from consumer.declaration import EffectKind, InDoubtPolicy

EXTERNAL, MARKED, TRANSACTIONAL = (
    EffectKind.EXTERNAL,
    EffectKind.MARKED,
    EffectKind.TRANSACTIONAL,
)
BY_POLICY = {
    InDoubtPolicy.PARK: After.PARK,
    InDoubtPolicy.RETRY_SAME_KEY: After.SAME_KEY,
    InDoubtPolicy.QUERY: After.ASK,
}


@pytest.mark.parametrize("policy", list(InDoubtPolicy))
def test_a_transactional_run_left_nothing_whatever_the_policy(policy: InDoubtPolicy) -> None:
    for begun in (False, True):
        assert after_run(TRANSACTIONAL, policy, effect_begun=begun) is After.RUN_AGAIN


@pytest.mark.parametrize("policy", list(InDoubtPolicy))
def test_a_marked_run_left_nothing_before_its_effect(policy: InDoubtPolicy) -> None:
    assert after_run(MARKED, policy, effect_begun=False) is After.RUN_AGAIN
    assert after_run(MARKED, policy, effect_begun=True) is BY_POLICY[policy]


@pytest.mark.parametrize("policy", list(InDoubtPolicy))
def test_a_plain_external_run_is_in_doubt_from_its_start(policy: InDoubtPolicy) -> None:
    for begun in (False, True):
        assert after_run(EXTERNAL, policy, effect_begun=begun) is BY_POLICY[policy]
