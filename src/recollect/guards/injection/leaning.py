"""How much the mere choice of words leans towards an attack, whatever their order.

The weights are those of a logistic regression over which classes occur, fitted once on the part of our own
corpus that is meant for that (`tests/data/injection.jsonl`). They decide little alone; they say how far a
classifier's suspicion is to be believed.
"""

from __future__ import annotations

import math

NEUTRAL = -1.89
"""What words that say nothing lean."""

_TABLE = (
    "y=0.69 Y=1.17 m=-0.17 M=-0.88 h=-1.24 q=0.22 r=-0.49 l=-1.14 s=-1.27 P=0.29 A=0.95 I=0.5 H=1.49 "
    "S=1.3 c=0.48 g=0.75 G=2.12 R=0.67 O=0.96 N=0.65 T=0.7 E=0.63 V=0.47 U=1.1 K=0.7 F=0.57 B=0.51 "
    "L=0.38 X=0.34 Z=0.6 u=0.65 J=0.38 j=1.05 z=0.46 Q=0.27 C=0.41 o=0.22 w=-0.91 v=1.0 D=0.27 "
    "d=-0.47 4=-0.35 5=0.33 6=0.57 2=0.59 &=0.19 k=-0.65 t=-0.53 "
)
_WEIGHTS = {pair[0]: float(pair[2:]) for pair in _TABLE.split()}


def leaning(classes: str) -> float:
    """Return which way the words of a short text lean, as log odds."""
    return NEUTRAL + sum(_WEIGHTS.get(kind, 0.0) for kind in set(classes))


def chance(odds: float) -> float:
    """Return log odds as a chance from 0 to 1."""
    return 1 / (1 + math.exp(-max(min(odds, 30.0), -30.0)))
