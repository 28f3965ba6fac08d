"""Read tokens: one request, for a time, by all processes that have the secret."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from feedback.errors import NotAvailable, SettingsError
from feedback.settings.http_section import HttpSection
from producer_client.http.callers import NotAuthenticated
from producer_client.http.read_tokens import LIFETIME_MS, ReadTokens, read_tokens_of

SECRET = "0123456789abcdef0123456789abcdef"
NOW = 1_764_226_800_000
TOKENS = ReadTokens(SECRET.encode(), group="payments")


@pytest.mark.parametrize("request_id", ["a", "order 7.x/~", "." * 128, "5 order-7"])
def test_a_token_opens_its_request_until_its_time_is_over(request_id: str) -> None:
    token = TOKENS.issue(request_id, NOW)
    assert TOKENS.check(token, NOW + LIFETIME_MS) == request_id
    assert TOKENS.opens(token, NOW + LIFETIME_MS + 1) is None
    # It stands in an address.
    assert set(token) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def test_each_character_of_a_token_counts() -> None:
    token = TOKENS.issue("order-7", NOW)
    body, _, signature = token.partition(".")
    wrong = [
        token[:at] + ("A" if one != "A" else "B") + token[at + 1 :] for at, one in enumerate(token)
    ]
    other = base64.urlsafe_b64encode(b"9999999999999 order-8").decode()
    wrong += ["", ".", body, f"{body}.", f".{signature}", f"{other}.{signature}", token + "="]
    wrong += [f" {token}", f"{token}\n", token + "é", "é" * 10, "a" * 1_000_000, "\x00", "\udc80"]
    for one in wrong:
        with pytest.raises(NotAuthenticated):
            TOKENS.check(one, NOW)


def test_processes_share_a_secret_and_groups_do_not(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    section = HttpSection(token_secret_file=str(path))
    token = read_tokens_of(section, group="payments").issue("order-7", NOW)
    assert read_tokens_of(section, group="payments").opens(token, NOW) == "order-7"
    assert read_tokens_of(section, group="refunds").opens(token, NOW) is None


def test_without_a_file_the_secret_is_of_this_process_and_a_warning_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, other = (read_tokens_of(HttpSection(), group="payments") for _ in range(2))
    assert one.opens(one.issue("order-7", NOW), NOW) == "order-7"
    assert other.opens(one.issue("order-7", NOW), NOW) is None
    assert [(line.levelname, line.message) for line in caplog.records] == [
        ("WARNING", "http.token_secret_made")
    ] * 2


def test_a_secret_that_can_be_guessed_or_is_not_there_starts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    with pytest.raises(NotAvailable, match="token_secret_file"):
        read_tokens_of(HttpSection(token_secret_file=str(path)), group="payments")
    path.write_text(SECRET[1:])
    with pytest.raises(SettingsError, match="token_secret_file") as refused:
        read_tokens_of(HttpSection(token_secret_file=str(path)), group="payments")
    assert SECRET[1:] not in str(refused.value)
