"""Templates: the resources by which versions are judged."""

from __future__ import annotations

from functools import partial

from graftwork.access.clock import Clock, utc_now
from graftwork.access.names import check_name
from graftwork.db import Database
from graftwork.protocol.analysis import AnalysisSpec, AnalysisTemplate
from graftwork.protocol.canonical import canonical
from graftwork.traffic.resources.kind import Kind
from graftwork.traffic.resources.resource import Resource
from graftwork.traffic.resources.resources import Resources

Template = Resource[AnalysisSpec]


def template_text(spec: AnalysisSpec) -> str:
    """Canonical JSON of what was said, and nothing of what was left out."""
    return canonical(spec.to_json(), what="spec")


TEMPLATE: Kind[AnalysisSpec, Template] = Kind(
    word="template",
    many="templates",
    noun="analysis template",
    listed_by="graftwork analysis list",
    spec=AnalysisSpec,
    document=AnalysisTemplate,
    made=Template,
    check_name=partial(check_name, what="template"),
    text=template_text,
)


class Templates(Resources[AnalysisSpec, Template]):
    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        super().__init__(TEMPLATE, database, clock)

    def spec(self, tenant: str, name: str, revision: int | None = None) -> tuple[AnalysisSpec, int, str]:
        """What a template says, at which revision, and the digest of that; the live one, where none is named.

        Raises:
            NotFound: there is no such template, or no such revision of it.
        """
        found = self.show(tenant, name, revision)
        return found.spec, found.revision.number, found.revision.digest
