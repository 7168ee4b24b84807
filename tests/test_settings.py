"""Settings: what there is no setting for is refused by its name, wherever it is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from graftwork.settings import Settings

#: What other servers have, and would change or hold back what an adapter answers: none of it is half there.
ELSEWHERE = (
    "speculative_model", "num_speculative_tokens", "enable_sleep_mode", "merge_adapters", "hotswap", "torch_compile",
    "cpu_offload_bytes", "kv_offload_bytes", "enable_prefix_caching", "quantization", "beam_width",
)  # fmt: skip


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_option_that_is_not_there_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValidationError, match=name):
        Settings.model_validate({name: 1})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graftwork.yaml").write_text(f"{name}: 1\n")
    with pytest.raises(ValidationError, match=name):
        Settings()


def test_the_deterministic_mode_and_transformers_own_code_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="own decoder"):
        Settings(deterministic=True, model_impl="transformers")


def test_a_trusted_proxy_is_an_address_or_a_network() -> None:
    assert Settings(trusted_proxies=("10.0.0.0/8", "::1")).trusted_proxies == ("10.0.0.0/8", "::1")
    with pytest.raises(ValidationError, match=r"such as 10\.0\.0\.0/8"):
        Settings(trusted_proxies=("10.0.0.1/8",))


@pytest.mark.parametrize("name", ["home", "cache_dir", "database_url", "artifacts_url", "artifacts_keyring"])
def test_an_empty_value_is_not_the_default(name: str) -> None:
    with pytest.raises(ValidationError, match="it is empty"):
        Settings.model_validate({name: ""})


def test_a_home_may_be_named_from_the_folder_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert Settings(home=Path("../there")).artifacts == (tmp_path / "there" / "artifacts").as_uri()
