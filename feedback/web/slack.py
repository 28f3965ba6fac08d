"""What text means to Slack and its like, apart from `webhook`: who only writes loads no HTTP."""


def escaped(text: str) -> str:
    """Return text with the three characters escaped that mean something to Slack.

    >>> escaped("<!channel> & all")
    '&lt;!channel&gt; &amp; all'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
