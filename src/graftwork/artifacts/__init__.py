"""artifacts: keeps bytes; what a version consists of, where its blobs lie, and how they are unpacked."""

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.artifacts.stores import BlobStore
from graftwork.artifacts.working_copy import WorkingCopies

__all__ = ["BlobStore", "BundleFile", "Manifest", "WorkingCopies"]
