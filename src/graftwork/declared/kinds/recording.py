"""Recordings: how a tenant's answers are recorded."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select

from graftwork.access.roles import Right
from graftwork.db.schema import recordings
from graftwork.declared.desk import Desk
from graftwork.declared.resource_kind import ResourceKind, Spec, spec_of
from graftwork.protocol.predictions import RecordingResource, RecordingSpec
from graftwork.traffic.records.recording import Recording, recording_of


class RecordingKind(ResourceKind[RecordingResource]):
    """Each tenant has one; it is there to be exported where somebody has set it."""

    word, body, right, removable = "Recording", RecordingResource, Right.ADMINISTER, False

    def name(self, document: RecordingResource) -> str:
        return ""

    def check(self, document: RecordingResource) -> None:
        """Its schema says it all."""

    def spec(self, document: RecordingResource) -> Spec:
        return document.spec.model_dump(by_alias=True)

    def live(self, desk: Desk) -> Mapping[str, Spec]:
        usual, found = Recording(), recording_of(desk.tx, desk.tenant)
        own = select(recordings.c.updated_by).where(recordings.c.tenant == desk.tenant)
        if found == usual and not desk.tx.execute(own).scalar():  # nobody's: the row is there for its secret
            return {}
        return {"": spec_of(RecordingSpec, found.to_json())}

    def set(self, desk: Desk, document: RecordingResource) -> str | None:
        wanted = Recording(**document.spec.model_dump())
        desk.services.recordings.set(desk.tenant, wanted, actor=desk.actor)
        return None
