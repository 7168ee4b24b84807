"""artifacts: keeps bytes; what a version consists of, where its blobs lie, and how they are unpacked."""
