"""Prune one fixed, seeded, random source into a given target, with a measured and certified error."""

from strongticket.construct.attention import ConstructedAttention, attention
from strongticket.construct.certify import certify
from strongticket.construct.linear import linear
from strongticket.construct.models import Comparison, ModelReport, compare_models, model, model_report
from strongticket.construct.pair import Pair, ReluPair
from strongticket.construct.relu import Network, network, relu
from strongticket.construct.targets import AttentionTarget, BlockTarget
from strongticket.construct.transformer import ConstructedTransformer, transformer

__all__ = [
    "AttentionTarget",
    "BlockTarget",
    "Comparison",
    "ConstructedAttention",
    "ConstructedTransformer",
    "ModelReport",
    "Network",
    "Pair",
    "ReluPair",
    "attention",
    "certify",
    "compare_models",
    "linear",
    "model",
    "model_report",
    "network",
    "relu",
    "transformer",
]
