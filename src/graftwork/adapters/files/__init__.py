"""The files of an adapter folder: weights in every format, JSON, all read as data and bounded."""
