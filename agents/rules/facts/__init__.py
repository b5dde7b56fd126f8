"""Facts and preferences by rules: statements are found by the rulebooks and put into sentences by phrasebooks.

`statements` reads a message, `phrasebook` words what was found (and reads such wording back), `fact_phrases` and
`preference_phrases` hold the wording, `candidates` and `wishes` make candidates of it.
"""
