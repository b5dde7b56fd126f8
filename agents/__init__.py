"""The processors: one module a stage, its pure function first, its thin Faust agent last."""
