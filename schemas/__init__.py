"""Every record that crosses a topic or rests in a table: pure data, no input or output.

Records are frozen ``msgspec`` structs. `schemas.codec` turns them into bytes and back, `schemas.ids` derives
their identifiers, and nothing in this package imports another package of the project.
"""
