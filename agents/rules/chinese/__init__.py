"""Chinese: word lists, clauses, values and rules."""
