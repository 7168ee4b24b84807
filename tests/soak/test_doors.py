"""Every door, asked as its description allows and as it forbids: nothing breaks, and answers are as described."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import schemathesis
from schemathesis.config import SchemathesisConfig

from graftwork.client import Client
from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import write_lora
from support.fixtures import Tiny
from support.keys import KEYS
from support.listening import Listening, listening
from support.scale import LONG, soak_seed, times

TASK = {
    "apiVersion": "adapters.graftwork.dev/v1alpha1",
    "kind": "Task",
    "spec": {"adapter": "alpha", "output": {"type": "regex", "pattern": "[a-z]{1,3}"}},
}


@pytest.fixture(scope="module")
def server(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Listening, dict[str, str]]]:
    """With short answers, an adapter of which there are two versions, the first with a document and signed, a task, and
    the key of its operator, without whom nobody gets in once somebody has made a key."""
    root = tmp_path_factory.mktemp("doors")
    changes = {"home": root / "home", "base_name": "tiny", "max_model_len": 64, "port": 0}
    with listening(tiny, tiny.settings.model_copy(update=changes)) as made:
        with Client(made.url) as client:
            for seed in (1, 2):
                client.push(write_lora(root / f"lora-{seed}", tiny.outline, seed=seed), "alpha")
            client.documents.add("alpha:1.0.0", root / "lora-1" / "adapter_config.json", kind="other")
            client.signatures.sign("alpha:1.0.0", KEYS["ed25519"].private)
            client.webhooks.set("alpha", "https://hooks.example/", ["hold.*"])
            client.tasks.set({**TASK, "metadata": {"name": "alpha"}})
            key = client.keys.create(role="admin", scopes=["inference", "read", "manage"])
        yield made, {"authorization": f"Bearer {key['key']}"}
        made.engine.check()


def described() -> Any:
    """What a server tells of its doors."""
    with TemporaryDirectory() as home:
        return build_app(Settings(home=Path(home), base_name="tiny")).openapi()


schemathesis.serializer.alias("application/partial-upload", "application/octet-stream")

#: Texts that mean something here, among those that are made up.
KNOWN = ["1", "alpha", "alpha:1.0.0", "alpha@production", "1.0.0", "1.0.1", "tiny", "default", "champion", "production"]
doors = schemathesis.openapi.from_dict(
    described(),
    config=SchemathesisConfig.from_dict(
        {
            "seed": soak_seed(),
            "dictionaries": {"known": {"values": KNOWN}},
            "generation": {
                "max-examples": times(30, 3000),
                "deterministic": not LONG,
                "database": "none",
                "dictionaries": {"string": {"dictionary": "known", "probability": 0.4}},
            },
            # What our schemas allow may still be too long for the context, or name what is not there.
            "checks": {"positive_data_acceptance": {"enabled": False}},
        }
    ),
)


@doors.parametrize()
def test_answers_are_as_described(case: schemathesis.Case[Any], server: tuple[Listening, dict[str, str]]) -> None:
    case.call_and_validate(base_url=server[0].url, headers=server[1])
