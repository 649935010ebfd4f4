"""The weights of the features that rank messages.

They were fitted as a linear ranker on four conversations of LoCoMo, each judged by a fit on the other three,
and on copies of the questions that name nobody; the weight of the time was set by hand. docs/recall.md says
what each part buys.
"""

HYBRID_WEIGHTS: dict[str, float] = {
    "words": 2.078,
    "words covered nearby": 3.816,
    "words of another speaker": -2.648,
    "meaning": 0.536,
    "meaning before": -0.083,
    "meaning two before": 0.173,
    "meaning behind": 0.152,
    "answers this meaning": 0.459,
    "speaker": 0.898,
    "asks": -0.482,
    "time words": 0.406,
    "time words for when": 0.888,
    "time": 2.0,
}
"""For questions with a vector."""

TEXT_WEIGHTS: dict[str, float] = {
    "words": 0.410,
    "words covered": 3.184,
    "words covered nearby": 4.446,
    "words before": -0.203,
    "words behind": 0.253,
    "answers these words": 2.971,
    "speaker": 1.490,
    "asks": -0.524,
    "time words": 0.274,
    "time words for when": 0.942,
    "time": 2.0,
}
"""For searches by words alone."""
