"""Types in generated signatures that no page of ours describes: they are shown without a link."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onceward
from onceward import testing

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

FACES = (onceward, testing)
# Only there references come from signatures; all other pages name what they mean themselves.
SIGNATURES = "reference/python-api"


def plain_type(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Element
) -> Element | None:
    """Resolve a reference of a signature that Sphinx has not resolved.

    A public name of ours is described under the name that users import. Any other type there stands
    without a link. On other pages an unresolved reference stays one, and Sphinx says so.
    """
    if node.get("refdomain") != "py" or node["refdoc"] != SIGNATURES:
        return None
    public = public_name(str(node.get("reftarget")))
    if public is None or public == node.get("reftarget"):
        return content
    domain = env.get_domain("py")
    found = domain.resolve_xref(
        env, SIGNATURES, app.builder, str(node["reftype"]), public, node, content
    )
    return found if found is not None else content


def public_name(target: str) -> str | None:
    """Return the name under which users import an object of ours; None where they cannot.

    >>> public_name("producer_client.client.client.Client"), public_name("Client")
    ('onceward.Client', 'onceward.Client')
    """
    name = target.rpartition(".")[2]
    for face in FACES:
        if name in face.__all__:
            return f"{face.__name__}.{name}"
    return None
