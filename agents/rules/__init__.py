"""The rule processor: signal words and patterns in Chinese and English, no model, the same answer every time.

`text` finds the sentences that are the user's own statements, `english` and `chinese` read them clause by clause.
For profile slots, `reading` collects what they state, `merging` and `tagging` decide. For facts and preferences,
`facts` words it and `relations` compares it with what is known. `exclusions` says, for both, what a statement ends
elsewhere. `domain`, `catalogue` and `keywords` tell what a conversation is about. `processor` offers all of it as an
`agents.processor.PipelineProcessor`.
"""
