"""What a ticket is constructed for: one reader per framework, all giving the same merged matrices."""

from strongticket.construct.targets.attention import AttentionTarget
from strongticket.construct.targets.models import ModelTarget, read_model
from strongticket.construct.targets.torch_attention import as_attention_target, read_multihead_attention
from strongticket.construct.targets.transformer import BlockTarget

__all__ = [
    "AttentionTarget",
    "BlockTarget",
    "ModelTarget",
    "as_attention_target",
    "read_model",
    "read_multihead_attention",
]
