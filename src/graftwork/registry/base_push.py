"""BasePushes: blobs, then a look at what they are, then the record; a base is seen only when whole and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from graftwork.access.names import check_name
from graftwork.adapters.outline import Outline
from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.check_stored import check_stored
from graftwork.artifacts.stores import BlobStore
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.errors import Unavailable
from graftwork.models.base_identity import identify_base
from graftwork.registry.bases import BaseRecord, Bases

#: The outline of the model in a folder, by name, source and revision; raises Refused where it cannot be served.
Survey = Callable[[Path, str, str, str | None], Outline]


@dataclass(frozen=True)
class BasePushes:
    """Keeps checkpoints whose blobs have been stored; what a base is, is read from its bytes, never believed."""

    bases: Bases
    store: BlobStore
    copies: WorkingCopies
    survey: Survey

    def push(
        self, tenant: str, name: str, manifest: Manifest, *, source: str, revision: str | None, actor: str
    ) -> tuple[BaseRecord, bool]:
        """Record the base that these files are; True where it, or that the store has it, is new.

        It is unpacked beside the store meanwhile, so that the disk needs room for it.

        Raises:
            InvalidRequest: the name.
            Conflict: blobs are missing (they are listed), or an adapter has the name.
            Damaged: a stored blob no longer matches its digest.
            Unavailable: it cannot be unpacked.
            Refused: the files are no base that can be served rightly.
        """
        check_name(name, what="base")
        check_stored(self.store, tenant, manifest)
        try:
            with self.copies.lease(tenant, manifest) as folder:
                outline = self.survey(folder, name, source, revision)
                identity = identify_base(outline, folder)
        except OSError as error:  # another process that shares the folder needed its room
            raise Unavailable(f"The files of {name} could not be read ({error.strerror}); push again.") from error
        finally:
            self.copies.remove(tenant, manifest.digest())  # large, and nobody serves from it
        still_stored = partial(check_stored, self.store, tenant, manifest)
        return self.bases.register(tenant, name, identity, manifest=manifest, actor=actor, still_stored=still_stored)
