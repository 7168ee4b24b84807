"""Templates: the resources by which versions are judged."""

from __future__ import annotations

from functools import partial

from graftwork.access.clock import Clock, utc_now
from graftwork.access.names import check_name
from graftwork.db import Database
from graftwork.protocol.analysis_template import AnalysisTemplate, TemplateSpec
from graftwork.protocol.canonical import canonical
from graftwork.traffic.resources.kind import Kind
from graftwork.traffic.resources.resource import Resource
from graftwork.traffic.resources.resources import Resources

Template = Resource[TemplateSpec]


def template_text(spec: TemplateSpec) -> str:
    """Canonical JSON of what was said, and nothing of what was left out."""
    return canonical(spec.to_json(), what="spec")


TEMPLATE: Kind[TemplateSpec, Template] = Kind(
    word="template",
    many="templates",
    noun="analysis template",
    listed_by="graftwork analysis list",
    spec=TemplateSpec,
    document=AnalysisTemplate,
    made=Template,
    check_name=partial(check_name, what="template"),
    text=template_text,
)


class Templates(Resources[TemplateSpec, Template]):
    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        super().__init__(TEMPLATE, database, clock)
