"""An OpenAI endpoint that does what a script says, when it says it, and writes down when it did.

It holds no model: it exists to test load generators, ours and others', against known truth.
"""
