"""Text escaped for Slack. Apart from `webhook`, so that it can be used without the HTTP library."""


def escaped(text: str) -> str:
    """Return text with the three control characters of Slack escaped.

    >>> escaped("<!channel> & all")
    '&lt;!channel&gt; &amp; all'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
