"""Callers known by a JSON Web Token of an identity provider."""

from __future__ import annotations

from collections.abc import Collection

import jwt

from producer_client.http.callers import Caller, invalid
from producer_client.http.signers import Signers

# Clocks of two hosts differ.
LEEWAY_S = 30
_MOST_CHARACTERS = 256


class JwtCallers:
    """Recognises callers by their tokens.

    A caller is a subject of the issuer: another issuer's subjects are other callers.

    Args:
        algorithms: of `ALGORITHMS`; no other one is used, also where a token names it.
    """

    def __init__(
        self, signers: Signers, *, issuer: str, audience: str, algorithms: Collection[str]
    ) -> None:
        self._signers = signers
        self._issuer = issuer
        self._audience = audience
        self._algorithms = tuple(algorithms)

    def caller_of(self, token: str) -> Caller:
        """Return the caller with this token.

        Raises:
            NotAuthenticated: it is not valid, or no more.
            NotAvailable: nobody can know now.
        """
        try:
            header = jwt.get_unverified_header(token)
            claims = jwt.decode(
                token,
                self._signers.key(header.get("kid"), header.get("alg", "")),
                algorithms=self._algorithms,
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY_S,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "enforce_minimum_key_length": True,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
            # Its message may quote a claim.
            raise invalid(f"its token is refused: {type(error).__name__}") from None
        subject = claims["sub"]
        if not subject or len(subject) > _MOST_CHARACTERS:
            raise invalid("its subject is empty or too long")
        return Caller(f"jwt:{self._issuer}|{subject}")
