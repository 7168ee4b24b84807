"""Cards: gathers what is known of a version, and writes it as a model card or a bill of materials."""

from __future__ import annotations

import json
from typing import Any, Final

from graftwork.adapters.files.json_file import CONFIG_NAME
from graftwork.artifacts.stores import BlobStore
from graftwork.db import Database
from graftwork.registry import signatures
from graftwork.registry.cards.bom import bill_of_materials
from graftwork.registry.cards.facts import facts_of
from graftwork.registry.cards.measured import measured_of
from graftwork.registry.cards.model_card import model_card
from graftwork.registry.documents import rows
from graftwork.registry.documents.documents import MAX_DOCUMENTS, Documents
from graftwork.registry.reading import whole
from graftwork.registry.reference import Reference
from graftwork.registry.resolving import resolve
from graftwork.registry.versions import Version

_MAX_CONFIG_BYTES: Final = 1 << 20


class Cards:
    """Raises as `Registry` does for references, and Damaged where a stored file that it reads is."""

    def __init__(self, database: Database, store: BlobStore, documents: Documents) -> None:
        self._database = database
        self._store = store
        self._documents = documents

    def model_card(self, tenant: str, reference: Reference | str) -> str:
        """The model card: generated, around the last one that people wrote.

        Raises:
            InvalidRequest: what people wrote is no model card.
        """
        with self._database.reading() as tx:
            version = whole(tx, resolve(tx, tenant, reference))
            measured, _ = measured_of(tx, version)
            written = self._documents.written_card(tx, version)
        facts = facts_of(version, self._config(version), measured)
        own = b"".join(self._documents.content(tenant, written)) if written is not None else None
        return model_card(facts, own)

    def bill_of_materials(self, tenant: str, reference: Reference | str) -> dict[str, Any]:
        """The bill of materials, in CycloneDX 1.6."""
        with self._database.reading() as tx:
            version = whole(tx, resolve(tx, tenant, reference))
            measured, evaluations = measured_of(tx, version)
            added = rows.after(tx, version, 0, kind=None, superseded=False, limit=MAX_DOCUMENTS)
            changes = evaluations + rows.count(tx, version) + len(signatures.of_version(tx, version))
        return bill_of_materials(facts_of(version, self._config(version), measured), added, changes)

    def _config(self, version: Version) -> dict[str, Any]:
        """The adapter's config, which a push has read already; nothing where it was written otherwise."""
        for file in version.manifest.files:
            if file.path == CONFIG_NAME and file.size <= _MAX_CONFIG_BYTES:
                config = json.loads(b"".join(self._store.open(version.tenant, file.digest)))
                return config if isinstance(config, dict) else {}
        return {}
