"""Templates: what whoever judges by them is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from graftwork.errors import NotFound
from graftwork.protocol.analysis_template import TemplateSpec
from graftwork.traffic.gates.templates import Templates
from support.analysis import template
from support.databases import NewDatabase
from support.desk import Desk


@pytest.fixture
def templates(new_database: NewDatabase) -> Iterator[Templates]:
    with new_database() as url:
        desk = Desk(url)
        yield Templates(desk.database, desk.clock)
        desk.database.close()


def spec(least: str) -> TemplateSpec:
    metric = {"name": "m", "provider": {"rate": {"measure": "success_rate"}}, "interval": "1m", "minSamples": 70}
    return TemplateSpec.model_validate(template({**metric, "successCondition": f"result >= {least}"})["spec"])


def test_a_spec_is_told_with_its_revision_and_digest_also_when_it_is_no_longer_live(templates: Templates) -> None:
    first = templates.set("local", "careful", spec("0.9"), actor="me")[0].revision
    second = templates.set("local", "careful", spec("0.95"), actor="me")[0].revision
    live = templates.show("local", "careful")
    assert (live.spec, live.revision.number, live.revision.digest) == (spec("0.95"), 2, second.digest)
    templates.remove("local", "careful", actor="me")
    found = templates.show("local", "careful", 1)
    assert (found.spec, found.revision.number, found.revision.digest) == (spec("0.9"), 1, first.digest)
    with pytest.raises(NotFound, match="The analysis template 'careful' does not exist"):
        templates.show("local", "careful")
    with pytest.raises(NotFound, match="no revision 3"):
        templates.show("local", "careful", 3)
