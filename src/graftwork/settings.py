"""Every setting, with its unit in its name: flags over `GRAFTWORK_*` variables over `graftwork.yaml` over defaults."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)


def default_home() -> Path:
    """Where Graftwork keeps its files when `GRAFTWORK_HOME` is not set."""
    return Path(platformdirs.user_data_dir("graftwork"))


class Settings(BaseSettings):
    """One frozen value, made at the door and handed down; each part reads only what it needs.

    Raises:
        pydantic.ValidationError: naming the setting and what is wrong with its value.
    """

    model_config = SettingsConfigDict(env_prefix="GRAFTWORK_", yaml_file="graftwork.yaml", frozen=True, extra="forbid")

    home: Path = Field(default_factory=default_home, description="Folder of the database, the artifacts and the cache.")
    cache_dir: Path | None = Field(
        default=None, description="Unpacked bases and bundles, safe to delete; `<home>/cache` when not given."
    )
    database_url: str | None = Field(
        default=None,
        repr=False,  # it may hold a password
        description="The database: `sqlite:///PATH` or `postgresql://USER@HOST/NAME`; `<home>/graftwork.db` when not "
        "given.",
    )
    artifacts_url: str | None = Field(
        default=None,
        description="Where files of versions are kept: `file:///FOLDER`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or "
        "`az://CONTAINER/PREFIX`; `<home>/artifacts` when not given.",
    )
    artifacts_keyring: Path | None = Field(
        default=None,
        description="File of the keys that stored files are sealed under before they leave this process; without one "
        "they are not sealed.",
    )

    base: str = Field(
        default="smollm2-135m",
        description="The base model: a built-in name, a Hugging Face folder or a hub id.",
    )
    base_revision: str | None = Field(default=None, description="Hub revision of the base, when it is a hub id.")
    base_name: str | None = Field(default=None, description="The name the base answers to; derived when not given.")

    host: str = Field(default="127.0.0.1", description="Address the server listens on.")
    trusted_proxies: tuple[str, ...] = Field(
        default=(),
        description="Addresses or networks (`10.0.0.0/8`) of proxies whose headers `X-Region` and `X-User-Id` count; "
        "from anybody else they are not read. With any, the server is behind a proxy.",
    )
    port: int = Field(default=8080, ge=0, le=65535, description="Port the server listens on; 0 takes a free one.")
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="Names in `Host` that are answered, beside those of this machine; none given: all, where others "
        "reach the server.",
    )
    tls_cert: Path | None = Field(default=None, description="File of the server's certificate and its chain, in PEM.")
    tls_key: Path | None = Field(
        default=None, validate_default=True, description="File of the certificate's private key, in PEM."
    )
    behind_proxy: bool = Field(
        default=False, description="Whether a proxy in front of the server takes care of TLS; others then reach it."
    )
    max_body_bytes: int = Field(default=4 << 20, ge=1024, description="Largest JSON request body, in bytes.")
    max_blob_bytes: int = Field(default=4 << 30, ge=1024, description="Largest uploaded file, in bytes.")

    webhook_private_targets: bool = Field(
        default=False,
        description="Whether webhooks may be sent to addresses that are not public, and to loopback by plain HTTP.",
    )

    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="Number format of the base and the adapters while serving."
    )
    model_impl: Literal["auto", "transformers"] = Field(
        default="auto",
        description="Code that runs the base: our own decoder where it fits (Llama family), or always transformers'.",
    )
    deterministic: bool = Field(
        default=False,
        description="Whether an answer's tokens and log-probabilities are the same bits whatever else is computed "
        "beside it; a little slower, and only where our own decoder fits the base.",
    )
    threads: int = Field(
        default=0,
        ge=0,
        description="Compute threads; 0: OMP_NUM_THREADS, or one per physical core that this process may use.",
    )
    max_model_len: int | None = Field(
        default=None,
        ge=16,
        description="Longest prompt plus answer, in tokens; the base's own limit when not given.",
    )
    max_num_seqs: int = Field(default=64, ge=1, description="Most requests in one step.")
    max_num_batched_tokens: int = Field(
        default=512,
        ge=64,
        description="Most tokens of one step: one for each request that decodes, the rest for prompts.",
    )
    inter_token_target_ms: float = Field(
        default=100.0,
        ge=0,
        description="Longest step, in milliseconds, while prompts are computed beside requests that decode, or "
        "three times what decoding takes where that is longer; prompts then get fewer tokens of it. 0: no limit.",
    )
    batch_wait_ms: float = Field(
        default=0.0,
        ge=0,
        le=1000,
        description="How long an idle engine waits for more requests after the first, in milliseconds, before its next "
        "step; with `max_num_seqs` of them it waits no longer.",
    )
    kv_cache_bytes: int = Field(default=1 << 30, ge=1 << 20, description="Memory for keys and values, in bytes.")
    prefix_caching: bool = Field(
        default=True,
        description="Whether requests begin with keys and values that earlier ones of the same version, tenant and "
        "`cache_salt` left behind.",
    )
    adapter_cache_bytes: int = Field(default=1 << 30, ge=1 << 16, description="Memory for resident adapters, in bytes.")
    form_cache_bytes: int = Field(
        default=8 << 30,
        ge=0,
        description="Disk space for adapters as they lie in memory, ready to be copied, in bytes; 0 keeps none.",
    )
    bundle_cache_bytes: int = Field(
        default=8 << 30, ge=0, description="Disk space for adapters' files, unpacked to be loaded, in bytes."
    )
    max_rank: int = Field(default=64, ge=1, le=1024, description="Largest low-rank width that is served.")
    max_waiting: int = Field(
        default=1024,
        ge=1,
        description="Most requests that may queue before 503; of several tenants each may have its share of them, and "
        "beyond it gets 429.",
    )
    request_timeout_s: float | None = Field(
        default=None, gt=0, description="Longest time from a request to the end of its answer, in seconds; then 504."
    )
    stop_grace_s: float = Field(
        default=10.0,
        ge=0,
        le=3600,
        description="How long answers that are under way may go on after the server was told to stop, in seconds; then "
        "they end with an error, and at most 5 seconds later the server does.",
    )
    load_timeout_s: float = Field(default=60.0, gt=0, description="Longest wait for an adapter to load, in seconds.")
    load_retries: int = Field(
        default=3,
        ge=0,
        le=20,
        description="How often a load is tried again while the store or the disk does not answer; the first time after "
        "0.1 s, then after twice as long each time.",
    )
    load_failure_ttl_s: float = Field(
        default=5.0,
        ge=0,
        description="How long a failed load is remembered, in seconds: requests for the adapter get its error at once, "
        "unless it is loaded explicitly or pushed again. 0: never.",
    )
    prefetch: bool = Field(
        default=True,
        description="Whether an idle engine brings popular adapters back from their forms on disk to memory.",
    )
    adapter_companions: bool = Field(
        default=True,
        description="Whether adapters' own chat templates, tokens, stop tokens and generation defaults are used.",
    )
    template_timeout_s: float = Field(
        default=2.0, gt=0, le=60, description="Longest an adapter's chat template may run, in seconds."
    )
    template_memory_bytes: int = Field(
        default=256 << 20, ge=64 << 20, description="Most memory an adapter's chat template may take, in bytes."
    )
    grammar_timeout_s: float = Field(
        default=2.0, gt=0, le=60, description="Longest the grammar of a request may take to be tried, in seconds."
    )
    grammar_memory_bytes: int = Field(
        default=256 << 20, ge=128 << 20, description="Most memory it may take for that, in bytes."
    )
    tool_format: Literal["auto", "hermes", "llama3", "mistral"] = Field(
        default="auto", description="How models write calls of tools; `auto` looks for a sign in their chat template."
    )
    pin: tuple[str, ...] = Field(
        default=(), description="References loaded before the server is ready, and kept in memory."
    )

    record_mode: Literal["off", "relaxed", "strict"] = Field(
        default="relaxed",
        description="Whether answers are recorded, where their tenant does not say: behind the answer (the last "
        "0.2 s of them are lost when the server dies), before its end leaves, or not at all.",
    )

    session_ttl_s: float = Field(
        default=86400.0,
        ge=0,
        le=90 * 86400,
        description="How long a session keeps its version though nobody comes back to it, in seconds. 0: sessions keep "
        "none.",
    )
    shadow_queue: int = Field(
        default=256, ge=1, description="Most copies of requests that wait to be made; more are dropped and counted."
    )
    shadow_at_once: int = Field(
        default=1, ge=1, le=64, description="Most copies that are made at the same time, beside the requests."
    )
    shadow_timeout_s: float = Field(
        default=60.0, gt=0, description="Longest that a copy of a request may take, in seconds."
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level logged.")

    @field_validator("home", "cache_dir", "database_url", "artifacts_url", "artifacts_keyring", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if value == "":  # a secret that was not set, say; what is meant is not the default
            raise ValueError("it is empty; give a value, or unset it for the default")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            try:
                ip_network(one)
            except ValueError as error:
                raise ValueError(f"{error}; write an address or a network such as 10.0.0.0/8") from None
        return value

    @field_validator("deterministic")
    @classmethod
    def _by_our_own_decoder(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("model_impl") == "transformers":
            raise ValueError("it needs our own decoder; leave model_impl at auto")
        return value

    @field_validator("tls_key")
    @classmethod
    def _of_a_certificate(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if (value is None) != (info.data.get("tls_cert") is None):
            raise ValueError("tls_cert and tls_key go together; give both, or neither")
        return value

    @field_validator("home", "cache_dir", "artifacts_keyring", "tls_cert", "tls_key")
    @classmethod
    def _expand(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser().absolute()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, YamlConfigSettingsSource(settings_cls)

    @property
    def is_behind_proxy(self) -> bool:
        return self.behind_proxy or bool(self.trusted_proxies)

    @property
    def cache(self) -> Path:
        return self.cache_dir if self.cache_dir is not None else self.home / "cache"

    @property
    def bases(self) -> Path:
        """Prepared base models, one folder each."""
        return self.cache / "bases"

    @property
    def bundles(self) -> Path:
        """Verified working copies of adapter versions, one folder per digest."""
        return self.cache / "bundles"

    @property
    def forms(self) -> Path:
        """Serving forms of adapter versions, one blob each."""
        return self.cache / "forms"

    @property
    def popularity(self) -> Path:
        """How much adapters were asked for lately."""
        return self.cache / "popularity.json"

    @property
    def uploads(self) -> Path:
        """What has come of large files that are still being sent."""
        return self.home / "uploads"

    @property
    def artifacts(self) -> str:
        return self.artifacts_url or (self.home / "artifacts").resolve().as_uri()  # which takes no `..`

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'graftwork.db'}"
