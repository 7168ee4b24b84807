"""The facts of one version, in full and with as little as there can be."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.protocol.canonical import sha256
from graftwork.registry.cards.facts import Facts, Measured, facts_of
from graftwork.registry.versions import Version, frozen_json

MANIFEST = Manifest((BundleFile("adapter_config.json", 2, sha256("{}")), BundleFile("a/b.bin", 3, sha256("abc"))))
TOLD = {
    "description": "Answers <b>politely</b> | and\nbriefly.",
    "license": "apache-2.0",
    "language": ["en", "de"],
    "task": "support",
    "author": "ada",
    "code": {"repo": "https://example.org/train", "commit": "0123abc", "dirty": False},
    "datasets": [{"uri": "org/tickets", "split": "train"}, {"name": "chats", "digest": sha256("chats")}],
    "training": {"hyperparameters": {"learning_rate": 0.0002, "epochs": 3}},
}
CONFIG = {
    "r": 8,
    "lora_alpha": 16,
    "target_modules": ["q_proj", "v_proj"],
    "task_type": "CAUSAL_LM",
    "use_dora": False,
    "base_model_name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct",
}
MEASURED = [
    Measured("tickets", "test", "task", "offline", {"accuracy": 0.875, "f1": 0.5}),
    Measured("latency", "", "inference", "offline", {"p50_ms": 12.5}),
]


def version_with(metadata: Mapping[str, object]) -> Version:
    return Version(
        tenant="local",
        adapter="tone",
        semver="1.2.0",
        sequence=3,
        digest=MANIFEST.digest(),
        manifest=MANIFEST,
        stage="development",
        kind="LORA",
        base="smollm2-135m",
        base_digest=sha256("base"),
        rank=8,
        bytes=3,
        created_at="2026-01-31T09:30:00.000001Z",
        created_by="me",
        metadata=frozen_json(metadata, what="metadata", max_bytes=1 << 16),
    )


@pytest.fixture
def facts() -> Facts:
    return facts_of(version_with(TOLD), CONFIG, MEASURED)


@pytest.fixture
def few_facts() -> Facts:
    return facts_of(version_with({"license": 7, "training": [1], "code": "x", "datasets": [None, 1, {"x": 2}]}), {}, [])
