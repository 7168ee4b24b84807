"""Families of LoRA: whatever PEFT writes answers as PEFT does, and whatever is damaged is refused by name."""

from __future__ import annotations

import asyncio
import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch
from hypothesis import HealthCheck, Phase, example, given, note, reject, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from contracts.bench import PROMPTS, Bench
from graftwork.errors import Refused
from support.engines import Answer, ask, prompt_of, request, settled
from support.oracle import Oracle, OracleLike
from support.scale import times
from support.tiny import ALL_LINEARS, save_peft

FP32 = 2e-4
WEIGHTS = "adapter_model.safetensors"
PEFTS = "base_model.model."
#: Base B, with a head of its own or a tied one, with biases or without.
BASES: tuple[dict[str, Any], ...] = (
    {},
    {"tie_word_embeddings": True},
    {"attention_bias": True, "mlp_bias": True},
)
FAMILY = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[phase for phase in Phase if phase != Phase.explain],
    print_blob=True,
)


@dataclass
class Family:
    """A bench whose adapters have names that are never used twice, in an event loop of its own."""

    bench: Bench
    loop: asyncio.Runner
    count: int = 0

    def new(self) -> str:
        self.count += 1
        return f"made-{self.count}"

    def ask(self, *asked: tuple[tuple[int, ...], str | None]) -> list[Answer | BaseException]:
        async def all_of_them() -> list[Answer | BaseException]:
            engine = await self.bench.engine()
            rows = [ask(engine, request(prompt, name, max_tokens=8)) for prompt, name in asked]
            return list(await asyncio.gather(*rows, return_exceptions=True))

        return self.loop.run(all_of_them())

    def books(self) -> tuple[int, ...]:
        """What a refused load must leave as it was."""

        async def counted() -> tuple[int, ...]:
            engine = await self.bench.engine()
            await settled(engine)
            engine.check()
            stats = engine.stats()
            return stats.adapters_resident, stats.adapters_pinned, stats.adapter_bytes, stats.kv_pages_used

        return self.loop.run(counted())


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' and peft's own
        yield


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Family]]:
    made: dict[int, Family] = {}
    with asyncio.Runner() as loop:

        def of(base: int) -> Family:
            if base not in made:
                made[base] = Family(Bench(tmp_path_factory.mktemp("family"), BASES[base]), loop)
            return made[base]

        yield of
        for family in made.values():
            loop.run(family.bench.close())


# -- what PEFT writes --------------------------------------------------------------------------------------------------

RANKS = st.sampled_from([1, 2, 3, 4, 7, 8, 16, 31, 64])
ALPHAS = st.sampled_from([1, 8, 16, 0.5, 24])
PATTERNS = st.sampled_from(
    ["q_proj", "mlp.up_proj", "layers.2.mlp.down_proj", r"layers\.[01]\..*_proj", "self_attn.[kv]_proj", "o_pro."]
)
ENDS = ("embed_tokens", "lm_head")


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of a LoraConfig that PEFT takes together."""
    names = draw(st.lists(st.sampled_from([*ALL_LINEARS, *ENDS]), min_size=1, max_size=5, unique=True))
    targets: Any = draw(st.sampled_from([names, names, "all-linear", r".*(q|down)_proj"]))
    config: dict[str, Any] = {
        "r": draw(RANKS),
        "lora_alpha": draw(ALPHAS),
        "use_rslora": draw(st.booleans()),
        "target_modules": targets,
        # The first pattern that fits wins, and PEFT saves them sorted: in another order it cannot read its own file.
        "rank_pattern": dict(sorted(draw(st.dictionaries(PATTERNS, RANKS, max_size=2)).items())),
        "alpha_pattern": dict(sorted(draw(st.dictionaries(PATTERNS, ALPHAS, max_size=2)).items())),
        "bias": draw(st.sampled_from(["none", "none", "all", "lora_only"])),
    }
    config |= draw(st.sampled_from([{}, {}, {"use_dora": True}, {"lora_bias": True}]))
    config |= draw(st.sampled_from([{}, {"exclude_modules": ["layers.1.self_attn.q_proj", "v_proj"]}]))
    if draw(st.booleans()) and isinstance(targets, list) and not set(targets) & set(ENDS):
        config["layers_to_transform"] = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True))
    if draw(st.booleans()) and not set(names) & set(ENDS):
        saved = draw(st.sampled_from([["lm_head"], ["embed_tokens"], ["lm_head", "embed_tokens"], ["v_proj"], []]))
        config["modules_to_save"] = [name for name in saved if name not in names] or None
        if not config["modules_to_save"]:
            config["trainable_token_indices"] = draw(st.lists(st.integers(1, 255), min_size=1, max_size=4, unique=True))
    return config


STORED = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
#: What may stand before a module's path instead of PEFT's own.
PREFIXES = (PEFTS, PEFTS, "", f"{PEFTS}{PEFTS}", "module.", "_orig_mod.base_model.model.")
FILES = ("safetensors", "safetensors", "bin", "pt", "shards")


def respelled(folder: Path, prefix: str, named: bool, file: str) -> None:
    """The same tensors, with other prefixes, with the adapter's name in their keys, in another kind of file."""
    tensors = {f"{prefix}{key.removeprefix(PEFTS)}": value for key, value in load_file(folder / WEIGHTS).items()}
    if named:
        for half in ("lora_A", "lora_B"):
            tensors = {key.replace(f"{half}.", f"{half}.default."): value for key, value in tensors.items()}
    (folder / WEIGHTS).unlink()
    if file == "shards":
        for number in range(3):
            part = dict(list(tensors.items())[number::3])
            save_file(part, folder / f"adapter_model-{number + 1:05}-of-00003.safetensors")
    elif file == "safetensors":
        save_file(tensors, folder / WEIGHTS)
    else:
        torch.save(tensors, folder / f"adapter_model.{file}")


def with_dtype(folder: Path, dtype: torch.dtype) -> None:
    tensors = load_file(folder / WEIGHTS)
    save_file({key: value.to(dtype) for key, value in tensors.items()}, folder / WEIGHTS)


#: DoRA beside a copy of the embedding that is not the base's own: its norms are those of the copy.
DORA_ON_A_ROUNDED_COPY: dict[str, Any] = {
    "r": 1,
    "target_modules": ["q_proj", "embed_tokens", "lm_head"],
    "use_dora": True,
}


#: Every bias, and a layer with one that is saved whole: stored three times.
BIAS_OF_A_SAVED_LAYER: dict[str, Any] = {
    "r": 1,
    "target_modules": ["q_proj"],
    "bias": "all",
    "modules_to_save": ["v_proj"],
}


@settings(FAMILY, max_examples=times(60, 600))
@example(base=2, config=BIAS_OF_A_SAVED_LAYER, dtype="F32", prefix=PEFTS, named=False, file="safetensors", seed=1)
@example(base=0, config=DORA_ON_A_ROUNDED_COPY, dtype="BF16", prefix=PEFTS, named=False, file="safetensors", seed=0)
@given(
    base=st.integers(0, len(BASES) - 1),
    config=configs(),
    dtype=st.sampled_from(sorted(STORED)),
    prefix=st.sampled_from(PREFIXES),
    named=st.booleans(),
    file=st.sampled_from(FILES),
    seed=st.integers(0, 1000),
)
def test_what_peft_writes_answers_as_peft_does(
    families: Callable[[int], Family],
    base: int,
    config: dict[str, Any],
    dtype: str,
    prefix: str,
    named: bool,
    file: str,
    seed: int,
) -> None:
    family = families(base)
    bench, name = family.bench, family.new()
    try:
        folder = save_peft("LoraConfig", config, bench.base, bench.root / name, std=0.05, seed=seed)
    except ValueError:  # fields that PEFT does not take together
        reject()
    with_dtype(folder, STORED[dtype])
    oracle = Oracle(bench.base, folder)
    respelled(folder, prefix, named, file)
    account = bench.account(folder)
    note(f"{account.problems} {account.warnings}")
    assert account.ok
    # Beside what it saves whole PEFT may store the same bias again, and the module that was replaced.
    copies = {name for name in (config.get("modules_to_save") or ()) if config.get("bias", "none") != "none"}
    assert all(any(f".{name}." in entry.name for name in copies) for entry in account.unused)
    prompts = [(*prompt_of(seed, 9), *config.get("trainable_token_indices", ())), prompt_of(seed + 1, 70)]
    rows = [(prompts[0], name), (prompts[1], None), (prompts[1], name), (prompts[0], "a1")]
    for (prompt, who), answer in zip(rows, family.ask(*rows), strict=True):
        assert isinstance(answer, Answer), answer
        truth = oracle if who == name else bench.plain() if who else bench.oracle(None)
        assert_parity(truth, prompt, answer)
    shutil.rmtree(folder)


def assert_parity(truth: OracleLike, prompt: tuple[int, ...], answer: Answer) -> None:
    """Every token is the truth's likeliest, or as likely as it within rounding, and rated as there."""
    rated = truth.logprobs([*prompt, *answer.tokens])[len(prompt) - 1 : -1]
    want = [float(row[token]) for row, token in zip(rated, answer.tokens, strict=True)]
    assert answer.chosen == pytest.approx(want, abs=FP32)
    assert want == pytest.approx(rated.max(-1).values.tolist(), abs=FP32)


# -- what is damaged ---------------------------------------------------------------------------------------------------

WHOLE: dict[str, dict[str, Any]] = {
    "whole": {"r": 8, "target_modules": "all-linear"},
    "rich": {"r": 4, "target_modules": ["q_proj", "up_proj"], "use_dora": True, "modules_to_save": ["lm_head"],
             "trainable_token_indices": [7, 9]},
}  # fmt: skip
#: Changes of a config that contradict the tensors or ask for what is not served, and a word of the refusal.
CONTRADICTIONS: tuple[tuple[dict[str, Any], str], ...] = (
    *(({"r": r}, "rank") for r in (1, 5, 9, 64, 65, 1000)),
    *(({"r": r}, "r:") for r in (0, -8, "8", 8.0, None)),
    *(({"rank_pattern": {pattern: 2}}, "rank 2") for pattern in ("q_proj", r"layers\.1\..*", "mlp.up_proj")),
    ({"rank_pattern": {"layers.3.self_attn.q_proj": 99}}, "max_rank"),
    ({"rank_pattern": {"q_proj": 0}}, "rank_pattern"),
    ({"rank_pattern": {"((": 2}}, "regular expression"),
    *(({"lora_alpha": alpha}, "lora_alpha") for alpha in (None, "16", 1e40)),
    ({"lora_bias": True}, "lora_bias"),
    *(
        ({"target_modules": names}, "target_modules")
        for names in (None, [], ["q_proj"], ["auto"], "auto", r".*\.9\..*")
    ),
    ({"layers_to_transform": [0, 1]}, "target_modules"),
    ({"exclude_modules": ["q_proj"]}, "target_modules"),
    ({"modules_to_save": ["embed_tokens"]}, "modules_to_save"),
    ({"modules_to_save": ["norm"]}, "modules_to_save"),
    ({"trainable_token_indices": [7, 9, 11]}, "trainable_token_indices"),
    ({"trainable_token_indices": [7, 300]}, "trainable_token_indices"),
    ({"task_type": "SEQ_CLS"}, "task_type"),
    *(({"init_lora_weights": init}, "init_lora_weights") for init in ("pissa", "olora", "corda", "of tomorrow")),
    *(({"peft_type": kind}, "") for kind in ("LOHA", "IA3", "PREFIX_TUNING", "VERA", "OFT", None)),
    *(({field: {"a": 1}}, field) for field in ("arrow_config", "kasa_config", "megatron_config", "of_tomorrow")),
    ({"use_qalora": True}, "use_qalora"),
    ({"alora_invocation_tokens": [-1]}, "alora_invocation_tokens"),
)


class Damage(Protocol):
    def apply(self, folder: Path) -> str:
        """Break the adapter of a folder; what this returns must be in the refusal."""
        ...


@dataclass(frozen=True)
class Contradiction:
    changes: dict[str, Any]
    word: str

    def apply(self, folder: Path) -> str:
        file = folder / "adapter_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | self.changes))
        return self.word


@dataclass(frozen=True)
class Truncation:
    part: float

    def apply(self, folder: Path) -> str:
        data = (folder / WEIGHTS).read_bytes()
        (folder / WEIGHTS).write_bytes(data[: int(self.part * len(data))])
        return WEIGHTS


@dataclass(frozen=True)
class TensorDamage:
    what: str
    which: int
    where: int

    def apply(self, folder: Path) -> str:
        tensors = load_file(folder / WEIGHTS)
        name: str = sorted(tensors)[self.which % len(tensors)]
        note(f"{self.what}: {name}")
        save_file(TENSOR_DAMAGES[self.what](tensors, name, self.where), folder / WEIGHTS)
        words = [word for word in name.split(".") if word.endswith(("_proj", "_tokens", "_head"))]
        return words[0]


DAMAGES: st.SearchStrategy[Damage] = st.one_of(
    st.sampled_from([Contradiction(*one) for one in CONTRADICTIONS]),
    st.builds(Truncation, st.floats(0, 0.999)),
    st.builds(TensorDamage, st.deferred(lambda: st.sampled_from(sorted(TENSOR_DAMAGES))),
              st.integers(0, 1000), st.integers(0, 1 << 20)),
)  # fmt: skip


def _poisoned(tensor: Tensor, where: int, value: float) -> Tensor:
    tensor.view(-1)[where % tensor.numel()] = value
    return tensor


def _without(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    return {key: value for key, value in tensors.items() if key != name}


TENSOR_DAMAGES: dict[str, Callable[[dict[str, Tensor], str, int], dict[str, Tensor]]] = {
    "missing": lambda all_, name, _: _without(all_, name),
    "not a number": lambda all_, name, at: all_ | {name: _poisoned(all_[name], at, float("nan"))},
    "infinite": lambda all_, name, at: all_ | {name: _poisoned(all_[name], at, float("-inf"))},
    "whole numbers": lambda all_, name, _: all_ | {name: all_[name].to(torch.int32)},
    "float8": lambda all_, name, _: all_ | {name: all_[name].to(torch.float8_e4m3fn)},
    "flat": lambda all_, name, _: all_ | {name: all_[name].reshape(1, -1, 1)},
    "a row less": lambda all_, name, _: all_ | {name: all_[name][:-1].clone()},
    "twice as long": lambda all_, name, _: all_ | {name: torch.cat([all_[name]] * 2, -1)},
    "another layer": lambda all_, name, at: _without(all_, name) | {
        name.replace("model.", f"model.layers.{4 + at}.", 1): all_[name]},
    "another module": lambda all_, name, _: _without(all_, name) | {
        ".".join(part.replace("_proj", "_prj").replace("lm_", "lmm_").replace("embed_", "embd_")
                 for part in name.split(".")): all_[name]},
    "another part": lambda all_, name, _: _without(all_, name) | {f"{name}.of.more": all_[name]},
}  # fmt: skip


@settings(FAMILY, max_examples=times(80, 1500))
@given(whole=st.sampled_from(sorted(WHOLE)), damage=DAMAGES)
def test_whatever_is_damaged_is_refused_and_leaves_everything_as_it_was(
    families: Callable[[int], Family], whole: str, damage: Damage
) -> None:
    family = families(0)
    bench, name = family.bench, family.new()
    if not (bench.root / whole).exists():
        save_peft("LoraConfig", WHOLE[whole], bench.base, bench.root / whole)
    folder = Path(shutil.copytree(bench.root / whole, bench.root / name))
    word = damage.apply(folder)
    account = bench.account(folder)
    note(f"{name}: {account.problems}")
    assert not account.ok and word in " ".join(account.problems)
    prompt = prompt_of(*PROMPTS[1])
    family.ask((prompt, "a1"))
    before = family.books()
    refused, good, plain = family.ask((prompt, name), (prompt, "a1"), (prompt, None))
    assert isinstance(refused, Refused), refused
    for answer, truth in ((good, bench.plain()), (plain, bench.oracle(None))):
        assert isinstance(answer, Answer)
        assert_parity(truth, prompt, answer)
    assert family.books() == before
    shutil.rmtree(folder)
