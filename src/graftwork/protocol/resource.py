"""Resource: a document that may stand in a file, with `apiVersion`, `kind`, `metadata` and `spec` as in Kubernetes."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from graftwork.errors import InvalidRequest, InvalidResource
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


class Named(Resource):
    """The `metadata` of a resource with a name of its own."""

    name: Annotated[str, Field(max_length=128)]


class Spec(Resource):
    """The `spec` of a document: all that its author says."""

    def to_json(self) -> dict[str, Any]:
        """As it is stored and shown: only what was said, and lists as lists."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


class Document(Resource):
    """A resource of some kind under a name. What the server adds as `status` is not read."""

    api_version: ApiVersion
    kind: str
    metadata: Named
    spec: Spec
    status: dict[str, Any] | None = None

    @classmethod
    def read(cls, raw: bytes | bytearray) -> Self:
        """As `Body.read`; what is wrong in a field is InvalidResource."""
        try:
            return super().read(raw)
        except InvalidRequest as error:
            if error.field is None:
                raise
            raise InvalidResource(error.message, field=error.field) from None
