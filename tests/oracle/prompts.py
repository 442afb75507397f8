"""Thirty-two prompts of many kinds and lengths."""

from pathlib import Path
from typing import Final

_LICENSE: Final = (Path(__file__).parents[2] / "LICENSE").read_text("utf-8")

PROMPTS: Final = (
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "The three laws of thermodynamics state that",
    "Q: What is 17 times 23?\nA:",
    "Dear Sir or Madam,\n\nI am writing to",
    "To be, or not to be",
    "A",
    "\n",
    "1, 1, 2, 3, 5, 8, 13,",
    "Water boils at 100 degrees Celsius because",
    "def fibonacci(n: int) -> int:\n",
    "import numpy as np\n\nclass Matrix:\n    def __init__(self, rows, columns):\n",
    "SELECT name, count(*) FROM orders WHERE",
    "#include <stdio.h>\n\nint main(void) {\n",
    '{"name": "Ada", "born": 1815, "languages": [',
    "<html>\n<head>\n<title>",
    "fn main() {\n    let mut total = 0;\n    for i in 0..10 {",
    "Die Hauptstadt von Deutschland ist",
    "Il était une fois une princesse qui",
    "El veloz murciélago hindú comía feliz",
    "Příliš žluťoučký kůň úpěl ďábelské ódy",
    "日本の首都は",
    "삼겹살 먹으러 가자",
    "Быстрая коричневая лиса",
    "السلام عليكم",
    "Great job! 🎉🎉🎉 See you tomorrow 😀",
    "👩‍👩‍👧‍👦 family, 🏳️‍🌈 flag:",
    "<|im_start|>user\nName three primary colours.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>system\nYou are terse.<|im_end|>\n"
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n",
    "Summarise the following text in one sentence.\n\n" + _LICENSE[:1500] + "\n\nSummary:",
    _LICENSE[2000:4500],
    "Translate into French: " + "The cat sat on the mat and watched the rain. " * 30,
)
