"""FormFiles: the serving forms on a disk as whoever cleans up sees them: by version, whatever engine has made them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from graftwork.access.tenants import check_tenant
from graftwork.artifacts.stored import Stored
from graftwork.engine.form_head import SUFFIX, key_in

#: In place of a version's digest.
NOBODYS = "unreadable"


class FormFiles:
    """The folder of a `FormStore`, without what reading forms needs: a base, a number format, torch."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def held(self, tenant: str) -> Iterator[Stored]:
        """Every form of the tenant's; of one that is too damaged to say of which version it is, `NOBODYS`."""
        for _, stored in self._found(tenant):
            yield stored

    def remove(self, tenant: str, digest: str) -> bool:
        """Remove all forms of a version; False where one cannot be. A load that maps one keeps what it mapped."""
        try:
            for path, stored in self._found(tenant):
                if stored.digest == digest:
                    path.unlink(missing_ok=True)
        except OSError:  # not ours to remove
            return False
        return True

    def _found(self, tenant: str) -> Iterator[tuple[Path, Stored]]:
        for path in (self._root / check_tenant(tenant)).glob(f"*{SUFFIX}"):
            try:
                found = path.stat()
                digest = key_in(path).get("version")
            except ValueError:
                digest = NOBODYS
            except OSError:  # removed meanwhile
                continue
            yield path, Stored(str(digest), found.st_size, found.st_mtime)
