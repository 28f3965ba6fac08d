"""`onceward.js` as it is served; `test_payment_form` runs it in a browser."""

from __future__ import annotations

from producer_client.http.browser_module import BROWSER_MODULE


def test_the_module_is_small_and_has_its_four_names() -> None:
    body = BROWSER_MODULE.body.decode()
    assert len(BROWSER_MODULE.body) < 4000
    for name in ("const known", "class Refused", "function forget", "function submit"):
        assert f"\nexport {name}" in body
    lines = body.splitlines()
    assert [one for one in lines if not one or one.startswith((" ", "//", "/*", "*"))] == []
    # It names no other module, and runs no text.
    assert not any(word in body for word in ("import ", "import(", "eval", "innerHTML", "http:"))
