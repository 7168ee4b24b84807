"""Resource: a document that may stand in a file, with `apiVersion`, `kind`, `metadata` and `spec` as in Kubernetes."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from graftwork.protocol.registry import OurBody

ApiVersion = Literal["adapters.graftwork.dev/v1alpha1"]
#: Of our resources; another one means other fields.
API_VERSION: Final[ApiVersion] = "adapters.graftwork.dev/v1alpha1"


class Resource(OurBody):
    """A resource or a part of one, whose fields are written `keepLast`."""

    model_config = ConfigDict(alias_generator=to_camel)


class Whose(Resource):
    """The `metadata` of a resource that is an adapter's, or without a name its tenant's."""

    name: Annotated[str | None, Field(max_length=128)] = None
