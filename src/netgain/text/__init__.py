"""Text to token ids and back: tokenizer, chat template, incremental detokeniser, stop strings.

A leaf room: it imports no other room of netgain, no torch and no transformers.
"""
