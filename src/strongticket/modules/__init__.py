"""Torch modules: the pruned random weights as they are, and their folded equivalents."""

from strongticket.modules.attention import MergedAttention, TicketAttention
from strongticket.modules.maps import MergedMap, PrunedMap
from strongticket.modules.transformer import ReluNetwork, Transformer

__all__ = ["MergedAttention", "MergedMap", "PrunedMap", "ReluNetwork", "TicketAttention", "Transformer"]
