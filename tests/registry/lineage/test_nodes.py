"""The grammar of nodes and of their ends: what is read is written back, everything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.errors import InvalidRequest
from graftwork.registry.lineage.ends import parse_end
from graftwork.registry.lineage.nodes import KINDS, MAX_NAME_BYTES, Node, parse_node
from graftwork.registry.lineage.roles import ROLES, check_role
from graftwork.registry.reference import Reference

DIGEST = "sha256:" + "a1" * 32


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("dataset:s3://corpora/eu-2026", Node("dataset", "s3://corpora/eu-2026")),
        (f"dataset:s3://me@host/eu@{DIGEST}", Node("dataset", "s3://me@host/eu", DIGEST)),
        ("dataset:s3://me@host/eu", Node("dataset", "s3://me@host/eu")),
        ("dataset:hf://acme/laws@xxh64:0123456789abcdef", Node("dataset", "hf://acme/laws", "xxh64:0123456789abcdef")),
        ("dataset:Verträge 2026", Node("dataset", "Verträge 2026")),
        ("code:https://x.org/r@0f3c2a1", Node("code", "https://x.org/r", "0f3c2a1")),
        ("code:git@x.org:r.git@0f3c2a1-dirty", Node("code", "git@x.org:r.git", "0f3c2a1-dirty")),
        (f"base:smollm2-135m@{DIGEST}", Node("base", "smollm2-135m", DIGEST)),
        (f"version:{DIGEST}", Node("version", DIGEST)),
        ("route:support", Node("route", "support")),
        ("application:crm", Node("application", "crm")),
        ("preprocessing:clean-html", Node("preprocessing", "clean-html")),
    ],
)
def test_nodes_are_read_and_written_back(text: str, node: Node) -> None:
    assert parse_node(text) == node
    assert str(node) == text


@pytest.mark.parametrize(
    "text",
    [
        "", ":", "dataset", "dataset:", "Dataset:x", "planet:x", "dataset: x", "dataset:x ", "dataset:a\nb",
        "dataset:\0",
        "dataset:../../etc/passwd", "dataset:s3://b/./x", "dataset:a\\..\\b", "dataset:..", "dataset:\u202egnp.exe",
        "dataset:e\u0301", "dataset:\ud800", "dataset:\u00a0x", f"dataset:{'x' * (MAX_NAME_BYTES + 1)}",
        f"dataset:{'é' * (MAX_NAME_BYTES // 2 + 1)}", "application:a\tb", "route:Support", "route:a/b", "route:latest",
        "base:a/b", "version:tone:1.0.0", "version:sha256:abc", f"version:{DIGEST.upper()}",
    ],
)  # fmt: skip
def test_everything_else_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"KIND:NAME\[@DIGEST\]") as refused:
        parse_node(text)
    assert refused.value.field == "node" and refused.value.message.isprintable()


def test_the_longest_name_is_taken() -> None:
    assert len(parse_node(f"dataset:{'x' * MAX_NAME_BYTES}").name) == MAX_NAME_BYTES


@given(kind=st.sampled_from(sorted(KINDS)), name=st.text(), digest=st.sampled_from(["", f"@{DIGEST}", "@0f3c2a1"]))
def test_whatever_is_read_is_written_back_byte_by_byte(kind: str, name: str, digest: str) -> None:
    text = f"{kind}:{name}{digest}"
    try:
        node = parse_node(text)
    except InvalidRequest:
        return
    assert str(node) == text and parse_node(str(node)) == node


def test_an_end_is_a_node_or_a_reference() -> None:
    assert isinstance(parse_end("tone:1.0.0"), Reference)
    assert parse_end("version:base:1.0.0") == parse_end("adapters:/base:1.0.0")
    assert parse_end("base:tiny") == Node("base", "tiny")
    for text in ("", "a b", "version:", "version:Tone", "dataset:", "tone:1.0.0:2"):
        with pytest.raises(InvalidRequest):
            parse_end(text)


def test_roles_are_a_closed_list_between_given_kinds() -> None:
    for role, known in ROLES.items():
        for source in KINDS:
            for target in KINDS:
                if (source, target) in known.pairs:
                    check_role(role, source, target)
                else:
                    with pytest.raises(InvalidRequest, match=role):
                        check_role(role, source, target)
    with pytest.raises(InvalidRequest, match=r"no role 'eats'.*trained_on"):
        check_role("eats", "version", "dataset")


def test_nothing_stands_on_an_application_and_on_routes_only_applications() -> None:
    """What is added to an impact for the routes of adapters' names goes exactly so far."""
    pairs = [pair for role in ROLES.values() for pair in role.pairs]
    assert [source for source, target in pairs if target == "application"] == []
    assert {source for source, target in pairs if target == "route"} == {"application"}
