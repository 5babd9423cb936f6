"""Random weights that are never stored: drawn from seed, name, shape and law, the same bits everywhere.

>>> source = Source(seed=0, name="w", shape=(4, 4), law=Normal(1.0))
>>> bool((source.tile((1, 3), (0, 2)) == source.weights()[1:3, 0:2]).all())
True
"""

from strongticket.source.laws import Law, Normal, Signed, Uniform, law_from_dict
from strongticket.source.weights import Source

__all__ = ["Law", "Normal", "Signed", "Source", "Uniform", "law_from_dict"]
