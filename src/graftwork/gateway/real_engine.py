"""make_engine: the engine of this process, from the settings; the one place where the gateway meets torch."""

from __future__ import annotations

import logging

from graftwork.gateway.engine_slot import GenerationEngine, Stage
from graftwork.models.base import find_base
from graftwork.process import set_waiting
from graftwork.registry.version_files import VersionFiles
from graftwork.settings import Settings

log = logging.getLogger(__name__)


def make_engine(settings: Settings, source: VersionFiles, stage: Stage) -> GenerationEngine:
    """Prepare the base if need be and make the engine on it; slow, for a worker thread.

    Args:
        stage: told what is done next.

    Raises:
        Refused: the base cannot be served.
    """
    set_waiting()  # torch is imported here
    from graftwork.engine.create import create_engine
    from graftwork.models.prepare import prepare_base

    if find_base(settings) is None:
        stage("preparing it, which happens once")
    engine: GenerationEngine = create_engine(settings, prepare_base(settings, _log_progress), source, stage)
    return engine


def _log_progress(done: int, total: int) -> None:
    if total and (done * 10 // total) != ((done - 1) * 10 // total):
        log.info("preparing the base: %d %%", 100 * done // total)
