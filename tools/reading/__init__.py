"""How prose is read: Markdown as it is seen, the numbers in it, and what formulas come to."""
