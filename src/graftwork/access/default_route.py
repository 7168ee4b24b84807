"""check_default_route: the name that a request means which names nothing."""

from __future__ import annotations

from graftwork.access.names import DEFAULT, check_name
from graftwork.errors import InvalidRequest


def check_default_route(name: str | None) -> str | None:
    """A route, an adapter or a base by its name, `owner/name` of what another tenant granted; "" is None: the base.

    It may be a name that means nothing yet: then a request that names nothing is answered as one that names it.

    Raises:
        InvalidRequest: it is no name, or `default` itself.
    """
    if not name:
        return None
    if name == DEFAULT:
        raise InvalidRequest("'default' is what it is the meaning of; give a name, or nothing.", field="default_route")
    owner, slash, own = name.partition("/")
    for part in (owner, own) if slash else (name,):
        check_name(part, what="default_route")
    return name
