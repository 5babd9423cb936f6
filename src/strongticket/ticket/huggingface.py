"""Hugging Face models: which classes and settings a ticket may name, and how a model is built of its parameters.

Only listed classes are built, and only with listed settings: a configuration from a stranger must not be able to
choose code, download kernels or ask for more than the ticket's own tensors need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strongticket.families import LAYERS, Family, family_of
from strongticket.ticket import checks
from strongticket.ticket.errors import TicketError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from numpy.typing import NDArray

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
    "task_specific_params is_encoder_decoder gradient_checkpointing n_ctx _num_labels output_past directionality "
    "pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type"
)
_LABELS = "labels"
CLASSIFIERS: dict[str, tuple[str, frozenset[str]]] = {
    "GPT2ForSequenceClassification": ("GPT2Config", _GPT2 | {_LABELS}),
    "GPT2ForTokenClassification": ("GPT2Config", _GPT2 | {_LABELS, "classifier_dropout", "hidden_dropout"}),
    "BertForSequenceClassification": ("BertConfig", _BERT | {_LABELS}),
    "BertForTokenClassification": ("BertConfig", _BERT | {_LABELS}),
    "BertForQuestionAnswering": ("BertConfig", _BERT | {_LABELS}),
}
"""Classes whose configuration also lists the names of their ``labels``."""
CLASSES: dict[str, tuple[str, frozenset[str]]] = {
    "GPT2Model": ("GPT2Config", _GPT2),
    "GPT2LMHeadModel": ("GPT2Config", _GPT2),
    "BertModel": ("BertConfig", _BERT),
    "BertForMaskedLM": ("BertConfig", _BERT),
} | CLASSIFIERS
_MOST_IN_A_LIST = 1024
_LAYERS = ("n_layer", "num_hidden_layers")
_INEXPRESSIBLE = {"bert": ("is_decoder", "add_cross_attention"), "gpt2": ("add_cross_attention",)}


def check_architecture(
    architecture: dict[str, Any], shapes: Shapes, unknown: set[str] | None, further: tuple[str, ...] = ()
) -> None:
    """Refuse unknown classes and settings, and more layers than there are parameters."""
    checks.fields(architecture, "architecture", ("kind", "class", "config", "tied", *further), unknown=unknown)
    name = architecture["class"]
    if not isinstance(name, str) or name not in CLASSES:
        raise TicketError("architecture.class", f"must be one of {', '.join(CLASSES)}, got {checks.shown(name)}")
    allowed = CLASSES[name][1]
    for key, value in checks.mapping(architecture["config"], "architecture.config").items():
        field = f"architecture.config.{key}" if key in allowed else f"architecture.config[{checks.shown(key)}]"
        if key not in allowed:
            raise TicketError(field, f"is no setting of {name} that a ticket may have")
        for item in value if isinstance(value, list) and len(value) <= _MOST_IN_A_LIST else [value]:
            if isinstance(item, dict | list):
                raise TicketError(field, f"must be a plain value, got {checks.shown(value)}")
            if isinstance(item, float):
                checks.real(item, field)
            elif isinstance(item, int) and not isinstance(item, bool):
                checks.integer(item, field, -1, 2**40)
        if key in _LAYERS:
            checks.integer(value, field, 0, len(shapes))
        if key == _LABELS and not (isinstance(value, list) and all(isinstance(label, str) for label in value)):
            raise TicketError(field, f"must list up to {_MOST_IN_A_LIST} names, got {checks.shown(value)}")
    for alias, of in checks.mapping(architecture["tied"], "architecture.tied").items():
        checks.name(alias, "architecture.tied")
        if alias in shapes or not isinstance(of, str) or of not in shapes:
            raise TicketError("architecture.tied", f"{alias} must stand for a parameter, got {checks.shown(of)}")


def check_constructed(architecture: dict[str, Any], kept: Shapes, unknown: set[str] | None) -> Family:
    """The family of a model whose attention or linear layers are pairs; refused where pairs cannot express it."""
    check_architecture(architecture, kept, unknown, ("layers",))
    layers, family = architecture["layers"], family_of(architecture["class"])
    if not isinstance(layers, str) or layers not in LAYERS:
        raise TicketError("architecture.layers", f"must be one of {', '.join(LAYERS)}, got {checks.shown(layers)}")
    if family is None:
        raise TicketError("architecture.class", f"{architecture['class']} belongs to no family of models")
    for key in _INEXPRESSIBLE[family.name]:
        if architecture["config"].get(key, False) is not False:
            raise TicketError(f"architecture.config.{key}", "must be false: merged attention cannot express it")
    return family


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
    if name in CLASSIFIERS:
        settings[_LABELS] = [str(config.id2label[place]) for place in range(config.num_labels)]
    first: dict[int, str] = {id(parameter): key for key, parameter in model.named_parameters()}
    tied = {
        key: first[id(parameter)]
        for key, parameter in model.named_parameters(remove_duplicate=False)
        if first[id(parameter)] != key
    }
    return {"kind": "huggingface", "class": name, "config": settings, "tied": tied}


def describe_constructed(model: torch.nn.Module, layers: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The architecture of a ticket that has pairs for the ``layers`` of a transformers model, and what it keeps.

    ``layers`` is "attention" or "all"; kept is every parameter and saved buffer that no pair replaces, tied ones once.
    """
    architecture = describe(model) | {"kind": "model", "layers": layers}
    kept = {name: value for name, value in model.state_dict().items() if name not in architecture["tied"]}
    family = check_constructed(architecture, {name: tuple(value.shape) for name, value in kept.items()}, None)
    blocks = family.counts(architecture["config"])[0]
    replaced = frozenset(family.replaced(architecture["class"], blocks, layers))
    return architecture, {name: array_of(name, value) for name, value in kept.items() if not starts(name, replaced)}


def starts(name: str, prefixes: frozenset[str]) -> bool:
    """Whether a name starts with one of ``prefixes``, which all end in a dot.

    >>> starts("h.0.attn.c_attn.weight", frozenset({"h.0.attn.c_attn.", "h.0.attn.c_proj."}))
    True
    """
    return any(name[: place + 1] in prefixes for place, letter in enumerate(name) if letter == ".")


def array_of(name: str, value: torch.Tensor) -> NDArray[Any]:
    """A parameter as an array, refused where it has another precision than float32."""
    if value.is_floating_point() and str(value.dtype) != "torch.float32":
        raise TicketError(f"kept.{name}", f"has type {value.dtype}; a ticket's model is float32: call model.float()")
    return value.detach().cpu().numpy()


def build(architecture: dict[str, Any], tensors: dict[str, torch.Tensor], max_bytes: int) -> torch.nn.Module:
    """The model with ``tensors`` as its parameters, in evaluation mode; nothing is drawn or copied."""
    check_tensors(architecture, empty(architecture), tensors, max_bytes)
    return filled(architecture["class"], architecture["config"], tensors)


def empty(architecture: dict[str, Any], config: Any = None) -> torch.nn.Module:
    """The model without values, on the device "meta"; ``config`` is used in place of one made of the settings."""
    import torch

    transformers = _transformers()
    try:
        if config is None:
            config = _config(architecture["class"], architecture["config"])
        with torch.device("meta"):
            return getattr(transformers, architecture["class"])(config)
    except Exception as error:
        raise TicketError(
            "architecture.config", f"builds no {architecture['class']}: {checks.shown(str(error))}"
        ) from None


def check_tensors(
    architecture: dict[str, Any],
    model: torch.nn.Module,
    tensors: Mapping[str, torch.Tensor],
    max_bytes: int,
    replaced: frozenset[str] = frozenset(),
) -> None:
    """Refuse ``tensors`` other than those of an empty model, apart from names that start like one of ``replaced``."""
    field = "architecture.config"
    saved = {key for key in model.state_dict() if key not in architecture["tied"]}
    needed: dict[str, torch.Tensor] = dict(model.named_parameters())
    needed |= {key: buffer for key, buffer in model.named_buffers() if key in saved}
    needed = {key: value for key, value in needed.items() if not starts(key, replaced)}
    for key, value in needed.items():
        if key not in tensors:
            raise TicketError(field, f"needs the parameter {key}, which the ticket does not have")
        if tensors[key].shape != value.shape or tensors[key].dtype != value.dtype:
            raise TicketError(
                field,
                f"needs {key} as {value.dtype} of shape {tuple(value.shape)}, "
                f"the ticket has {tensors[key].dtype} of shape {tuple(tensors[key].shape)}",
            )
    for key in tensors:
        if key not in needed:
            raise TicketError(field, f"has no parameter {key}, which the ticket has")
    own = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    if own > max_bytes:
        raise TicketError(field, f"needs {own} bytes of buffers, more than max_bytes={max_bytes}")


def filled(name: str, settings: dict[str, Any], tensors: Mapping[str, torch.Tensor]) -> Any:
    """The model of class ``name`` with checked ``tensors``."""
    import torch

    transformers = _transformers()
    config = _config(name, settings)
    bars = transformers.utils.logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        cls = getattr(transformers, name)
        return cls.from_pretrained(None, config=config, state_dict=dict(tensors), dtype=torch.float32)
    finally:
        if shown:
            bars.enable_progress_bar()


def _config(name: str, settings: dict[str, Any]) -> Any:
    """The configuration of class ``name``; lists of labels become transformers' two dictionaries."""
    given = {key: value for key, value in settings.items() if key != _LABELS}
    if _LABELS in settings:
        given["id2label"] = dict(enumerate(settings[_LABELS]))
        given["label2id"] = {label: place for place, label in enumerate(settings[_LABELS])}
    return getattr(_transformers(), CLASSES[name][0])(**given)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise ImportError(
            "a ticket of a Hugging Face model needs the package 'transformers': pip install 'strongticket[hf]'"
        ) from None
    return transformers
