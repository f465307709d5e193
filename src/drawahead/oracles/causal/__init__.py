"""Left-to-right models: what one must answer, and how its answers serve the samplers.

A causal model answers the law of the next token after every token it is given, so one pass over a guessed window
answers every step of it. It says nothing about later tokens: there a first guess stands in.
"""

from drawahead.oracles.causal.guesses import Above, FirstGuess, LastAnswer, Ngram, Uniform, as_guess
from drawahead.oracles.causal.left_to_right import LeftToRight
from drawahead.oracles.causal.model import SAME, CausalFunction, CausalOracle

__all__ = [
    "SAME",
    "Above",
    "CausalFunction",
    "CausalOracle",
    "FirstGuess",
    "LastAnswer",
    "LeftToRight",
    "Ngram",
    "Uniform",
    "as_guess",
]
