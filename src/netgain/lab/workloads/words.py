"""Common English words, of which made prompts consist: most are one token in most vocabularies."""

from importlib.resources import files
from typing import Final

WORDS: Final = tuple(files(__package__).joinpath("words.txt").read_text("utf-8").split())
