"""Property tests here have no deadline: on a busy machine it would fail what is right."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
