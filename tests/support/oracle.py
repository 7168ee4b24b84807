"""The oracle: PEFT running one adapter alone on the same base, with transformers' own cache and attention."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, DynamicCache


class OracleLike(Protocol):
    """The kind's own library, running one adapter alone on a base (`Oracle` is PEFT)."""

    def logprobs(self, tokens: list[int]) -> Tensor: ...
    def spread(self, tokens: list[int]) -> list[Tensor]: ...
    def greedy(self, prompt: list[int], count: int) -> tuple[list[int], list[float]]: ...


class Oracle:
    """The plain base, or the base with one adapter, in one dtype."""

    def __init__(
        self, base: Path, adapter: Path | None = None, dtype: torch.dtype = torch.float32, vocab_size: int | None = None
    ) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(base, dtype=dtype).eval()
        if vocab_size is not None:
            self._model.resize_token_embeddings(vocab_size, mean_resizing=False)
        if adapter is not None:
            from peft import PeftModel

            self._model = PeftModel.from_pretrained(self._model, adapter, autocast_adapter_dtype=False).eval()

    @torch.inference_mode()
    def logprobs(self, tokens: list[int]) -> Tensor:
        """Float32 log-probabilities [tokens, vocab] of what follows each token."""
        logits: Tensor = self._run(tokens, use_cache=False).logits[0]
        return logits.float().log_softmax(-1)

    @torch.inference_mode()
    def hidden(self, tokens: list[int]) -> Tensor:
        """Float32 final hidden states [tokens, hidden], after the last norm; those of virtual tokens left out."""
        output = self._run(tokens, use_cache=False, output_hidden_states=True)
        states: Tensor = output.hidden_states[-1][0, -len(tokens) :]
        return states.float()

    @torch.inference_mode()
    def spread(self, tokens: list[int]) -> list[Tensor]:
        """`logprobs` by each of transformers' own attentions: in bfloat16 two right runs of one model differ."""
        plain = self._model.get_base_model() if hasattr(self._model, "get_base_model") else self._model
        found = []
        for implementation in ("eager", "sdpa"):
            plain.set_attn_implementation(implementation)
            found.append(self.logprobs(tokens))
        return found

    @torch.inference_mode()
    def greedy(self, prompt: list[int], count: int) -> tuple[list[int], list[float]]:
        """The likeliest continuation and the log-probability of each of its tokens."""
        tokens, chosen = list(prompt), []
        new, past = tokens, DynamicCache()
        for _ in range(count):
            output = self._run(new, cache=past, use_cache=True)
            last = output.logits[0, -1].float().log_softmax(-1)
            token = int(last.argmax())
            chosen.append(float(last[token]))
            tokens.append(token)
            new = [token]
        return tokens[len(prompt) :], chosen

    def _run(self, tokens: list[int], **how: Any) -> Any:
        return self._model(input_ids=torch.tensor([tokens]), **how)


class OneOfMany(Oracle):
    """One of several adapters of one base, or the plain base, which is in memory once for all of them."""

    def __init__(self, shared: Oracle, adapter: str | None) -> None:
        self._model, self._adapter = shared._model, adapter

    def _run(self, tokens: list[int], **how: Any) -> Any:
        if self._adapter is None:
            with self._model.disable_adapter():
                return super()._run(tokens, **how)
        self._model.set_adapter(self._adapter)
        return super()._run(tokens, **how)


def oracles_of(
    base: Path, folder: Path, names: Sequence[str], dtype: torch.dtype = torch.float32
) -> dict[str | None, OneOfMany]:
    """The plain base (None), and each adapter of `folder` that is named, alone."""
    shared = Oracle(base, folder / names[0], dtype)
    for name in names:
        shared._model.load_adapter(folder / name, name, autocast_adapter_dtype=False)
    shared._model.eval()
    return {name: OneOfMany(shared, name) for name in (None, *names)}


class ComposedOracle(Oracle):
    """The base with several adapters together, each with a weight: PEFT's `cat` combination."""

    def __init__(self, base: Path, adapters: Sequence[tuple[Path, float]], dtype: torch.dtype = torch.float32) -> None:
        from peft.tuners.lora import LoraLayer

        super().__init__(base, adapters[0][0], dtype)
        names = ["default"]
        for number, (folder, _) in enumerate(adapters[1:]):
            names.append(f"adapter_{number}")
            self._model.load_adapter(folder, names[-1], autocast_adapter_dtype=False)
        weights = [weight for _, weight in adapters]
        self._model.add_weighted_adapter(names, weights, "all", combination_type="cat")
        for module in self._model.modules():  # where the first one is rsLoRA, PEFT scales what is scaled once more
            if isinstance(module, LoraLayer) and "all" in module.scaling:
                module.scaling["all"] = 1.0
        self._model.set_adapter("all")
        self._model.eval()


class WholePasses(Oracle):
    """PEFT by whole forward passes: with a cache it would put virtual tokens before every new token, and would look for
    the invocation of an activated LoRA in the newest token only.

    Its logits begin with those of the virtual tokens where these have embeddings.
    """

    @torch.inference_mode()
    def logprobs(self, tokens: list[int]) -> Tensor:
        return super().logprobs(tokens)[-len(tokens) :]

    @torch.inference_mode()
    def greedy(self, prompt: list[int], count: int) -> tuple[list[int], list[float]]:
        tokens, chosen = list(prompt), []
        for _ in range(count):
            last = self.logprobs(tokens)[-1]
            tokens.append(int(last.argmax()))
            chosen.append(float(last[tokens[-1]]))
        return tokens[len(prompt) :], chosen
