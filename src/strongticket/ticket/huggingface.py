"""Hugging Face models: which classes and settings a ticket may name, and how a model is built of its parameters.

Only listed classes are built, and only with listed settings: a configuration from a stranger must not be able to
choose code, download kernels or ask for more than the ticket's own tensors need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strongticket.ticket import checks
from strongticket.ticket.errors import TicketError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    Shapes = Mapping[str, tuple[int, ...]]


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COMMON = _keys(
    "vocab_size initializer_range use_cache bos_token_id eos_token_id pad_token_id tie_word_embeddings is_decoder "
    "add_cross_attention chunk_size_feed_forward output_attentions output_hidden_states return_dict"
)
_GPT2 = _COMMON | _keys(
    "n_positions n_embd n_layer n_head n_inner activation_function resid_pdrop embd_pdrop attn_pdrop "
    "layer_norm_epsilon scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn summary_type "
    "summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout"
)
_BERT = _COMMON | _keys(
    "hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act hidden_dropout_prob "
    "attention_probs_dropout_prob max_position_embeddings type_vocab_size layer_norm_eps classifier_dropout "
    "position_embedding_type"
)
_IGNORED = _keys(
    "architectures transformers_version _name_or_path dtype torch_dtype model_type id2label label2id problem_type "
    "task_specific_params is_encoder_decoder gradient_checkpointing"
)
CLASSES: dict[str, tuple[str, frozenset[str]]] = {
    "GPT2Model": ("GPT2Config", _GPT2),
    "GPT2LMHeadModel": ("GPT2Config", _GPT2),
    "BertModel": ("BertConfig", _BERT),
    "BertForMaskedLM": ("BertConfig", _BERT),
}
_LAYERS = ("n_layer", "num_hidden_layers")


def check_architecture(architecture: dict[str, Any], shapes: Shapes, unknown: set[str] | None) -> None:
    """Refuse unknown classes and settings, and more layers than there are parameters."""
    checks.fields(architecture, "architecture", ("kind", "class", "config", "tied"), unknown=unknown)
    name = architecture["class"]
    if not isinstance(name, str) or name not in CLASSES:
        raise TicketError("architecture.class", f"must be one of {', '.join(CLASSES)}, got {checks.shown(name)}")
    allowed = CLASSES[name][1]
    for key, value in checks.mapping(architecture["config"], "architecture.config").items():
        field = f"architecture.config.{key}" if key in allowed else f"architecture.config[{checks.shown(key)}]"
        if key not in allowed:
            raise TicketError(field, f"is no setting of {name} that a ticket may have")
        for item in value if isinstance(value, list) and len(value) <= 64 else [value]:
            if isinstance(item, dict | list):
                raise TicketError(field, f"must be a plain value, got {checks.shown(value)}")
            if isinstance(item, float):
                checks.real(item, field)
            elif isinstance(item, int) and not isinstance(item, bool):
                checks.integer(item, field, -1, 2**40)
        if key in _LAYERS:
            checks.integer(value, field, 0, len(shapes))
    for alias, of in checks.mapping(architecture["tied"], "architecture.tied").items():
        checks.name(alias, "architecture.tied")
        if alias in shapes or not isinstance(of, str) or of not in shapes:
            raise TicketError("architecture.tied", f"{alias} must stand for a parameter, got {checks.shown(of)}")


def describe(model: torch.nn.Module) -> dict[str, Any]:
    """The architecture of a transformers model, refused if one of its settings could not be restored."""
    name = type(model).__name__
    if name not in CLASSES:
        raise TicketError("architecture.class", f"must be one of {', '.join(CLASSES)}, got {name}")
    config: Any = model.config
    settings = {}
    for key, value in config.to_diff_dict().items():
        if key in CLASSES[name][1]:
            settings[key] = value
        elif key not in _IGNORED:
            raise TicketError(f"architecture.config.{key}", f"cannot be stored in a ticket: {checks.shown(value)}")
    first: dict[int, str] = {id(parameter): key for key, parameter in model.named_parameters()}
    tied = {
        key: first[id(parameter)]
        for key, parameter in model.named_parameters(remove_duplicate=False)
        if first[id(parameter)] != key
    }
    return {"kind": "huggingface", "class": name, "config": settings, "tied": tied}


def build(architecture: dict[str, Any], tensors: dict[str, torch.Tensor], max_bytes: int) -> torch.nn.Module:
    """The model with ``tensors`` as its parameters, in evaluation mode; nothing is drawn or copied."""
    import torch

    transformers = _transformers()
    field = "architecture.config"
    cls = getattr(transformers, architecture["class"])
    try:
        config = getattr(transformers, CLASSES[architecture["class"]][0])(**architecture["config"])
        with torch.device("meta"):
            empty = cls(config)
    except Exception as error:
        raise TicketError(field, f"builds no {architecture['class']}: {checks.shown(str(error))}") from None
    needed = dict(empty.named_parameters())
    saved = {key for key in empty.state_dict() if key not in architecture["tied"]}
    buffers = {key: buffer for key, buffer in empty.named_buffers() if key in saved}
    for key, value in (needed | buffers).items():
        if key not in tensors:
            raise TicketError(field, f"needs the parameter {key}, which the ticket does not have")
        if tensors[key].shape != value.shape or tensors[key].dtype != value.dtype:
            raise TicketError(
                field,
                f"needs {key} as {value.dtype} of shape {tuple(value.shape)}, "
                f"the ticket has {tensors[key].dtype} of shape {tuple(tensors[key].shape)}",
            )
    for key in tensors:
        if key not in needed and key not in buffers:
            raise TicketError(field, f"has no parameter {key}, which the ticket has")
    own = sum(buffer.numel() * buffer.element_size() for buffer in empty.buffers())
    if own > max_bytes:
        raise TicketError(field, f"needs {own} bytes of buffers, more than max_bytes={max_bytes}")
    return _filled(transformers, cls, config, tensors)


def _filled(transformers: Any, cls: Any, config: Any, tensors: dict[str, torch.Tensor]) -> torch.nn.Module:
    import torch

    bars = transformers.utils.logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        return cls.from_pretrained(None, config=config, state_dict=dict(tensors), dtype=torch.float32)
    finally:
        if shown:
            bars.enable_progress_bar()


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise ImportError(
            "a ticket of a Hugging Face model needs the package 'transformers': pip install 'strongticket[hf]'"
        ) from None
    return transformers
