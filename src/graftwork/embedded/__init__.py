"""The Python door to an engine of your own, without HTTP."""

from graftwork.embedded.answer import Answer
from graftwork.embedded.engine import Engine

__all__ = ["Answer", "Engine"]
