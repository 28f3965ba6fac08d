"""`onceward.js` as it is served: without its comments and indentation, less than 4 kB."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

from producer_client.http.answers import HttpAnswer

_COMMENTS_AND_INDENTATION = re.compile(r"^ *(?:(?://|/\*\*|\* ).*\n)?|\n(?=\n)", re.MULTILINE)


def _served() -> HttpAnswer:
    source = Path(__file__).with_name("onceward.js").read_text("utf-8")
    body = _COMMENTS_AND_INDENTATION.sub("", source).encode()
    headers = {
        "Content-Type": "text/javascript; charset=utf-8",
        "Cache-Control": "max-age=300",
        "ETag": f'"{sha256(body).hexdigest()[:16]}"',
        "X-Content-Type-Options": "nosniff",
    }
    return HttpAnswer(200, body, headers)


BROWSER_MODULE = _served()
