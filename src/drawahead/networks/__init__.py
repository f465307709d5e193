"""Trained networks that ship with drawahead, and their modules."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.networks.emoji import emoji, emoji_words
    from drawahead.networks.emoji_tokens import emoji_pictures, emoji_tokens
    from drawahead.networks.fashion import fashion
    from drawahead.networks.text import TextModel, infilling, text, to_text, to_tokens

__all__ = [
    "TextModel",
    "emoji",
    "emoji_pictures",
    "emoji_tokens",
    "emoji_words",
    "fashion",
    "infilling",
    "text",
    "to_text",
    "to_tokens",
]

doors(__name__)
