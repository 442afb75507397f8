"""What netgain shows: figures, tables and charts as data, then as terminal text, JSON or a page."""
