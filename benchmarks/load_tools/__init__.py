"""netgain's load generator beside load tools that their users trust."""
