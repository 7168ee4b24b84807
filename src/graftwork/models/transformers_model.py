"""TransformersModel: any transformers decoder whose attention can be replaced, run on a ragged batch.

Interface: https://huggingface.co/docs/transformers/attention_interface
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel

from graftwork.adapters.outline import Outline
from graftwork.adapters.serving_form import Site
from graftwork.errors import Refused
from graftwork.kernels.linear import PackedLinear
from graftwork.kernels.select import Kernels
from graftwork.models.forward_batch import ForwardBatch, ForwardResult
from graftwork.models.model import Maker, digest_of
from graftwork.models.sites import BatchHolder, SiteEmbedding, SiteHead, SiteLinear, TiedEmbedding, watch_block
from graftwork.models.survey import linear_modules

ATTENTION_NAME = "graftwork_paged"
#: What a module may pass its attention without changing the result of plain causal attention.
_HARMLESS = {
    "dropout",
    "scaling",
    "position_ids",
    "is_causal",
    "use_cache",
    "cache_position",
    "output_attentions",
}


class TransformersModel:
    """One frozen base in memory: linear layers become sites, attention reads the paged cache.

    Owns its module and the batch holder; call `forward` from one thread.
    """

    def __init__(self, module: PreTrainedModel, outline: Outline, kernels: Kernels, max_context: int) -> None:
        self.outline = outline
        self.dtype: torch.dtype = module.dtype
        self._module = module
        self._kernels = kernels
        self._holder = BatchHolder()
        self._max_context = max_context
        self._plain_layers: set[int] = set()  # layers whose attention was found to be plain
        #: Digest of the weights as loaded, in the serving dtype.
        self.loaded_digest = digest_of(_makers(module))
        self._replace_linears()
        self._watch_blocks()
        self._replace_embedding()
        head = module.get_output_embeddings().packed
        _let_go_of_files(module, but=None if head.packed else head.dense())
        module.base_model.register_forward_hook(self._keep_hidden)
        for part in module.modules():
            if hasattr(part, "layer_idx"):
                part.graftwork = self  # the attention function finds us through its module
        module.set_attn_implementation(ATTENTION_NAME)

    @torch.inference_mode()
    def forward(self, batch: ForwardBatch) -> ForwardResult:
        """Write the batch's keys and values to their pages; logits and hidden states are in the serving dtype."""
        with self._holder.holding(batch) as holder:
            output = self._module(
                input_ids=batch.token_ids[None],
                position_ids=batch.positions[None],
                use_cache=False,
                logits_to_keep=batch.logits_at,
            )
            logits: Tensor = output.logits[0]
            if batch.plan is not None:
                batch.plan.hide(logits)
            hidden = holder.hidden
        return ForwardResult(logits, hidden)

    def weight(self, path: str) -> Tensor:
        """The weight of a linear layer [out, in] or of the embedding [vocab, hidden], as it was loaded."""
        module = self._module.get_submodule(path)
        return module.dense() if isinstance(module, SiteLinear) else module.weight.data

    def bias(self, path: str) -> Tensor | None:
        """The bias of a linear layer, if it has one."""
        module = self._module.get_submodule(path)
        assert isinstance(module, SiteLinear), "only linear layers have one that adapters change"
        return module.packed.bias

    def weight_names(self) -> set[str]:
        """Names of the weights that the digest is taken over."""
        return set(_makers(self._module))

    @property
    def nbytes(self) -> int:
        """Bytes that the weights take in memory, in whatever form; what two names share is there once."""
        packed: list[PackedLinear] = [part.packed for part in self._module.modules() if isinstance(part, SiteLinear)]
        plain: dict[int, int] = {one.data_ptr(): one.nbytes for one in self._module.parameters()}
        head: PackedLinear = self._module.get_output_embeddings().packed
        if not head.packed:
            plain.pop(head.dense().data_ptr(), None)
        return sum(one.nbytes for one in packed) + sum(plain.values())

    def weights_digest(self) -> str:
        """The digest of the weights as they are now, read back through their packed form."""
        return digest_of(_makers(self._module))

    def attend(
        self, part: Any, q: Tensor, k: Tensor, v: Tensor, scaling: float | None, options: dict[str, Any]
    ) -> Tensor:
        """Attention of one layer: q [1, heads, tokens, head_dim], k and v with kv_heads → [1, tokens, heads, head_dim].

        Raises:
            Refused: when the layer asks for something plain causal attention is not.
        """
        batch, layer = self._holder.batch, part.layer_idx
        if layer not in self._plain_layers:
            self._check_plain(part, scaling, options)
            self._check_shape(q, k, v)
            self._plain_layers.add(layer)
        assert scaling is not None, "checked for this layer"
        k, v, q = (tensor[0].transpose(0, 1).contiguous() for tensor in (k, v, q))
        if batch.plan is not None:
            batch.plan.act(Site("keys", layer), k, v)
        self._kernels.write_kv(k, v, batch.keys, batch.values, layer, batch.rows)
        return self._kernels.attend(q, batch.keys, batch.values, layer, batch.rows, scaling)[None]

    def _check_shape(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        """The kernels trust the outline's numbers of heads, which come from the config; so the weights must agree."""
        outline, tokens = self.outline, q.shape[2]
        wanted = (1, outline.num_kv_heads, tokens, outline.head_dim)
        if (tuple(k.shape), tuple(v.shape)) != (wanted, wanted) or q.shape[1] != outline.num_heads:
            raise Refused(
                f"The base's attention has {q.shape[1]} query and {k.shape[1]} key heads of {k.shape[3]}; its config "
                f"says {outline.num_heads} and {outline.num_kv_heads} of {outline.head_dim}."
            )

    def _check_plain(self, part: Any, scaling: float | None, options: dict[str, Any]) -> None:
        window = options.get("sliding_window")
        if window is not None and window < self._max_context:
            raise Refused(
                f"The base's attention slides over {window} tokens only; set max_model_len to {window} to serve it."
            )
        for name, value in options.items():
            if value is not None and name not in _HARMLESS and name != "sliding_window":
                raise Refused(f"The base's attention asks for {name}, which is not supported.")
        if scaling is None or not getattr(part, "is_causal", True):
            raise Refused("The base's attention is not plain causal attention.")

    def _replace_linears(self) -> None:
        head = self._module.get_output_embeddings()
        names = {id(module): path for path, module in self._module.named_modules()}
        sites = self.outline.site_of
        for path, linear in list(linear_modules(self._module)):
            _let_go_of_files(linear)  # a bias is kept as it is, and so is W where it cannot be packed
            self._replace(path, SiteLinear(linear, sites.get(path), self._kernels, self._holder))
        _let_go_of_files(head)
        self._replace(names[id(head)], SiteHead(head, self._kernels, self._holder))

    def _replace_embedding(self) -> None:
        if self.outline.embed is not None:
            embedding, head = self._module.get_submodule(self.outline.embed.path), self._module.get_output_embeddings()
            plain = type(embedding) is torch.nn.Embedding  # others multiply what they look up
            rows = head.packed.rows() if self.outline.tied and plain else None
            inner = embedding if rows is None else TiedEmbedding(head, rows)
            made = SiteEmbedding(inner, self.outline.vocab_size, self._holder)
            self._replace(self.outline.embed.path, made)

    def _watch_blocks(self) -> None:
        of = self._module.get_submodule
        for layer, block in enumerate(self.outline.blocks):
            norms = (of(block.attention_norm), of(block.mlp_norm))
            watch_block(of(block.attention), of(block.mlp), norms, layer, self._holder)

    def _replace(self, path: str, made: torch.nn.Module) -> None:
        parent, _, name = path.rpartition(".")
        setattr(self._module.get_submodule(parent), name, made)  # frees the plain weight of this layer

    def _keep_hidden(self, _module: object, _inputs: object, output: Any) -> None:
        if (at := self._holder.batch.hidden_at) is not None:
            self._holder.hidden = output[0][0][at]  # from [1, tokens, hidden]


def _let_go_of_files(module: torch.nn.Module, but: Tensor | None = None) -> None:
    """Plain weights may be views of mapped files, and change with them: copy them, all but one that is a copy."""
    for parameter in module.parameters():
        if but is None or parameter.data_ptr() != but.data_ptr():
            parameter.data = parameter.data.clone()


#: A SiteEmbedding keeps the embedding that it stands for under this name.
_INNER = ".inner."


def _makers(module: PreTrainedModel) -> dict[str, Maker]:
    """What gives each weight, by its checkpoint name; a head tied to the embedding counts once, as in the file."""
    makers: dict[str, Maker] = {
        name.replace(_INNER, "."): partial(getattr, value, "data") for name, value in module.named_parameters()
    }
    tied = bool(getattr(module.config, "tie_word_embeddings", False))
    for path, part in module.named_modules():
        if isinstance(part, TiedEmbedding):
            makers[f"{path}.weight".replace(_INNER, ".")] = partial(getattr, part, "weight")
        if isinstance(part, SiteLinear) and not (tied and part is module.get_output_embeddings()):
            makers[f"{path}.weight"] = part.dense
            if part.packed.bias is not None:
                makers[f"{path}.bias"] = partial(getattr, part.packed, "bias")
    return makers


def _paged_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
    scaling: float | None = None, **options: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    if attention_mask is not None:
        raise Refused("The base builds an attention mask of its own, which is not supported.")
    model: TransformersModel = module.graftwork
    return model.attend(module, query, key, value, scaling, options), None


AttentionInterface.register(ATTENTION_NAME, _paged_attention)
