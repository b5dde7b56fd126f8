"""English: word lists, clauses, values and rules."""
