"""How wide must a source be, and how far off can a ticket be?"""

from strongticket.theory.bounds import (
    BlockMatrices,
    attention_certificate,
    block_certificate,
    network_certificate,
    transformer_certificate,
)
from strongticket.theory.calibrate import Calibration, calibrate_C
from strongticket.theory.certificate import Certificate, Term
from strongticket.theory.normalised import LayerNorm, NormalisedBlock, lipschitz_constant, normalised_certificate
from strongticket.theory.norms import difference_norm_bound, spectral_norm_bound
from strongticket.theory.results import (
    AttentionWidths,
    BlockWidths,
    NetworkWidths,
    PairWidth,
    TransformerWidths,
)
from strongticket.theory.softmax import (
    lemma_5_bound,
    lemma_8_bound,
    lemma_12_bound,
    lemma_13_bound,
    softmax_output_bound,
    total_variation_bound,
)
from strongticket.theory.widths import (
    attention_widths,
    block_widths,
    linear_pair_width,
    network_widths,
    relu_pair_width,
    transformer_widths,
)

__all__ = [
    "AttentionWidths",
    "BlockMatrices",
    "BlockWidths",
    "Calibration",
    "Certificate",
    "LayerNorm",
    "NetworkWidths",
    "NormalisedBlock",
    "PairWidth",
    "Term",
    "TransformerWidths",
    "attention_certificate",
    "attention_widths",
    "block_certificate",
    "block_widths",
    "calibrate_C",
    "difference_norm_bound",
    "lemma_5_bound",
    "lemma_8_bound",
    "lemma_12_bound",
    "lemma_13_bound",
    "linear_pair_width",
    "lipschitz_constant",
    "network_certificate",
    "network_widths",
    "normalised_certificate",
    "relu_pair_width",
    "softmax_output_bound",
    "spectral_norm_bound",
    "total_variation_bound",
    "transformer_certificate",
    "transformer_widths",
]
