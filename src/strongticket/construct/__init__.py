"""Prune one fixed, seeded, random source into a given target, with a measured and certified error."""

from strongticket.construct.attention import ConstructedAttention, attention
from strongticket.construct.linear import linear
from strongticket.construct.models import model
from strongticket.construct.pair import Pair, ReluPair
from strongticket.construct.relu import Network, network, relu
from strongticket.construct.targets import AttentionTarget, BlockTarget
from strongticket.construct.transformer import ConstructedTransformer, transformer

__all__ = [
    "AttentionTarget",
    "BlockTarget",
    "ConstructedAttention",
    "ConstructedTransformer",
    "Network",
    "Pair",
    "ReluPair",
    "attention",
    "linear",
    "model",
    "network",
    "relu",
    "transformer",
]
