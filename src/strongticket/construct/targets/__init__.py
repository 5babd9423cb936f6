"""What a ticket is constructed for: one reader per framework, all giving the same merged matrices."""

from strongticket.construct.targets.attention import AttentionTarget
from strongticket.construct.targets.torch_attention import as_attention_target, read_multihead_attention
from strongticket.construct.targets.transformer import BlockTarget

__all__ = ["AttentionTarget", "BlockTarget", "as_attention_target", "read_multihead_attention"]
