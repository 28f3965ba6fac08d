"""Providers that differ: their claims, their keys, their certificates, how they name themselves."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey, OKPKey

from consumer.console.app import app
from feedback.errors import NotAvailable
from feedback.settings.settings import load
from tests.consumer.console.people import lines
from tests.consumer.console.provider import Provider, provider
from tests.consumer.console.test_oidc import NAMES_ITSELF, VERA, Visit, go
from tests.consumer.console.test_oidc import at as at
from tests.consumer.console.test_oidc import visit as visit
from tests.stack.authority import Authority

TOLD = {"sub": "17", "email": VERA, "email_verified": True}


@pytest.mark.parametrize("claims", [{}, {"email": "otto@shop.example"}])
def test_a_claim_that_the_token_lacks_is_asked_for(
    visit: Visit, at: Provider, claims: dict[str, Any]
) -> None:
    at.claims, at.told = claims, TOLD
    browser = visit()
    assert go(browser).status_code == 200
    assert VERA in browser.http.get("/audit").text


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"sub": "18"}, "another person"),
        ({"sub": None}, "another person"),
        ({"email_verified": False}, "verified"),
        ({"email_verified": "true"}, "verified"),
        ({"email": None}, "does not say the email"),
    ],
)
def test_an_answer_about_another_person_or_an_unverified_one_lets_nobody_in(
    visit: Visit, at: Provider, told: dict[str, Any], said: str
) -> None:
    # The verified address of one and the other's address are none together.
    at.claims, at.told = {"email_verified": True}, TOLD | told
    refused = go(visit())
    assert refused.status_code == 403 and said in refused.text, refused.text


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("ES256", ECKey.generate_key("P-256", parameters={"kid": "first"})),
        ("Ed25519", OKPKey.generate_key("Ed25519", parameters={"kid": "first"})),
    ],
)
def test_each_way_to_sign_with_a_key_of_its_own_counts(
    visit: Visit, at: Provider, algorithm: str, key: ECKey | OKPKey
) -> None:
    at.algorithm, at.key = algorithm, key
    assert go(visit()).status_code == 200


@pytest.mark.parametrize(
    "strange",
    [
        {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA"},
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"},
        {"kty": "RSA"},
        {},
        7,
    ],
)
def test_a_key_of_a_kind_that_is_not_known_leaves_the_others(
    visit: Visit, at: Provider, strange: object
) -> None:
    at.strange_keys = [strange]
    assert go(visit()).status_code == 200


def test_a_provider_may_name_itself_as_it_sends_the_browser_back(
    visit: Visit, at: Provider
) -> None:
    at.metadata, at.says = NAMES_ITSELF, {"iss": at.issuer}
    assert go(visit()).status_code == 200


def test_a_name_that_nobody_has_is_shown_short_and_as_text(visit: Visit, at: Provider) -> None:
    at.claims = {"email": "<b>\u202e" + "x" * 500, "email_verified": True}
    refused = go(visit())
    assert refused.status_code == 403 and "&lt;b&gt;\\u202exxx" in refused.text
    assert "\u202e" not in refused.text and "x" * 200 not in refused.text


def test_a_certificate_of_an_authority_of_ones_own_counts_where_the_settings_name_it(
    visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
    own, other = Authority(tmp_path / "own"), Authority(tmp_path / "other")
    trusts = ssl.create_default_context(cafile=str(own.cafile))
    with provider(own.issue("provider")) as at:
        at.told, at.claims = TOLD, {}
        browser = visit(oidc_issuer=at.issuer, oidc_ca_file=str(own.cafile))
        assert go(browser, verify=trusts).status_code == 200
        # It counts before a variable that the whole host may have.
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other.cafile))
        again = visit(oidc_issuer=at.issuer, oidc_ca_file=str(own.cafile))
        assert go(again, verify=trusts).status_code == 200
        for wrong in ({}, {"oidc_ca_file": str(other.cafile)}):
            refused = visit(oidc_issuer=at.issuer, **wrong).http.get("/login/oidc")
            assert refused.status_code == 503 and "SSLError" in refused.text


@pytest.mark.parametrize("content", [None, "no certificate\n"])
def test_an_authority_that_cannot_be_read_is_named_at_the_start(
    tmp_path: Path, content: str | None
) -> None:
    users, authority = tmp_path / "people", tmp_path / "authority.pem"
    users.write_text(lines())
    if content is not None:
        authority.write_text(content)
    given = {
        "users_file": str(users),
        "oidc_issuer": "https://a.example",
        "oidc_client_id": "c",
        "oidc_ca_file": str(authority),
    }
    with pytest.raises(NotAvailable, match=r"oidc_ca_file = .*authority\.pem cannot be used"):
        app(load(console=given))
