"""The rule processor: signal words and patterns in Chinese and English, no model, the same answer every time.

`text` finds the sentences that are the user's own statements, `english` and `chinese` read them clause by
clause, `merging` and `tagging` decide, and `processor` offers all of it as an `agents.processor.Processor`.
"""
