"""The verbs of documents, cards, bills and signatures, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graftwork.adapters.outline import Outline
from graftwork.testing import write_lora
from support.keys import KEYS

if TYPE_CHECKING:
    from cli.conftest import Cli


@pytest.fixture
def alpha(cli: Cli, outline: Outline, tmp_path: Path) -> Path:
    """A folder with keys, beside the folder of the version alpha:1.0.0."""
    assert cli("push", str(write_lora(tmp_path / "adapter", outline)), "alpha").code == 0
    for name, pair in KEYS.items():
        (tmp_path / f"{name}.pem").write_bytes(pair.private)
        (tmp_path / f"{name}.pub").write_bytes(pair.public)
    return tmp_path


def test_documents_are_added_listed_and_written_to_files(cli: Cli, alpha: Path) -> None:
    report = alpha / "report.json"
    report.write_text("{}")
    added = cli("document", "add", "alpha", str(report), "--kind", "evaluation_report", "--note", "run 7", "-o", "json")
    assert added.json()["id"] == "1"
    assert "nothing changed" in cli("document", "add", "alpha", str(report), "--kind", "evaluation_report", "--note",
                                    "run 7").err  # fmt: skip
    assert "run 7" in cli("document", "list", "alpha").out
    assert cli("document", "list", "alpha", "--kind", "tokenizer", "-o", "json").json() == []
    copy = alpha / "copy.json"
    assert cli("document", "get", "alpha", "1", "--file", str(copy)).code == 0
    assert copy.read_text() == "{}"
    assert cli("document", "get", "alpha", "1").out == "{}"
    again = cli("document", "get", "alpha", "1", "--file", str(copy))
    assert again.code == 1 and "File exists" in again.err
    assert cli("document", "get", "alpha", "1", "-o", "json").json()["kind"] == "evaluation_report"
    for wrong in (["get", "alpha", "2"], ["add", "alpha", str(alpha / "none"), "--kind", "other"], ["list", "beta"],
                  ["add", "alpha", str(report), "--kind", "weights"]):  # fmt: skip
        assert cli("document", *wrong).code == 1


def test_a_card_is_shown_edited_and_shown_again(cli: Cli, alpha: Path) -> None:
    card = alpha / "card.md"
    card.write_text(cli("card", "show", "alpha").out + "\nBe kind.\n")
    assert cli("card", "edit", "alpha", "--file", str(card), "--note", "first words").code == 0
    shown = cli("card", "show", "alpha").out
    assert shown == card.read_text()
    assert cli("card", "show", "alpha", "-o", "json").json() == {"card": shown}


def test_a_bill_is_json_unless_it_is_asked_for_otherwise(cli: Cli, alpha: Path) -> None:
    assert cli("bom", "alpha").json()["bomFormat"] == "CycloneDX"
    assert "bomFormat: CycloneDX" in cli("bom", "alpha", "-o", "yaml").out


def test_signed_and_verified(cli: Cli, alpha: Path) -> None:
    saved = alpha / "alpha.sig"
    signed = cli("sign", "alpha", "--key", str(alpha / "p256.pem"), "--folder", str(alpha / "adapter"), "--save",
                 str(saved), "-o", "json")  # fmt: skip
    assert signed.json()["algorithm"] == "secp256r1"
    again = cli("sign", "alpha", "--key", str(alpha / "p256.pub"), "--bundle", str(saved), "-o", "json")
    assert again.json()["created"] is False
    verified = cli("verify", "alpha", "--key", str(alpha / "p256.pub"))
    assert (verified.code, "valid" in verified.out) == (0, True)
    assert cli("verify", "--signatures", "-o", "json").json()["signatures"][0]["state"] == "valid"
    other = cli("verify", "alpha", "--key", str(alpha / "ed25519.pub"))
    assert other.code == 1 and "no valid signature" in other.out


@pytest.mark.parametrize("key", ["p256.pub", "adapter/adapter_config.json", "none.pem"])
def test_a_key_that_does_not_sign_is_one_message(cli: Cli, alpha: Path, key: str) -> None:
    ran = cli("sign", "alpha", "--key", str(alpha / key))
    assert ran.code == 1 and str(alpha / key) in ran.err
    assert len(ran.err.splitlines()) == 1
