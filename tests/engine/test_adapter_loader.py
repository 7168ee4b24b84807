"""AdapterLoader: what only shows beside the base's weights, and so in no account, is refused before it is served."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graftwork.adapters.account import account_folder
from graftwork.errors import Refused
from support.edited import Tensors, edited
from support.engines import FolderSource, ask, request, running
from support.fixtures import Tiny
from support.tiny import save_peft

Q2 = "model.layers.2.self_attn.q_proj"


async def test_a_form_that_overflows_is_refused_by_its_layer(tiny: Tiny, tmp_path: Path) -> None:
    config = {"r": 4, "target_modules": ["q_proj"], "use_dora": True}
    whole = save_peft("LoraConfig", config, tiny.base.folder, tmp_path / "whole")

    def huge(tensors: Tensors) -> Tensors:  # finite, but not once it is divided by the norms of W + B A
        return tensors | {name: np.full_like(one, 3e38) for name, one in tensors.items() if f"{Q2}.lora_magn" in name}

    assert account_folder(edited(whole, tmp_path / "huge", huge), tiny.outline, max_rank=4).ok
    async with running(tiny, FolderSource(tmp_path)) as engine:
        with pytest.raises(Refused, match=rf"huge:1\.0\.0 cannot be served.*{Q2} is beyond float32"):
            await ask(engine, request((1, 2, 3), "huge"))
        assert (await ask(engine, request((1, 2, 3), "whole"))).tokens
        assert engine.stats().adapters_resident == 1
