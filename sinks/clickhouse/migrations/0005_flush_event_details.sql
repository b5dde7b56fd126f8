-- Beside the tuples of 0002 and not in them: another type would rewrite every row, and a column that a row does not
-- have reads as its default, which is what such a row meant.
--
-- added_kinds: of each value in `added`, what it is; empty: slots only. domain_asked: whether the flush was read for
-- keywords at all; with it, empty arrays mean that there were none. domain_ms and facts_ms belong to `timings`.
ALTER TABLE flush_events
    ADD COLUMN IF NOT EXISTS added_kinds     Array(LowCardinality(String)),
    ADD COLUMN IF NOT EXISTS domain_asked    Bool,
    ADD COLUMN IF NOT EXISTS domain_facts    Array(String) CODEC(ZSTD),
    ADD COLUMN IF NOT EXISTS domain_keywords Array(String) CODEC(ZSTD),
    ADD COLUMN IF NOT EXISTS domain_ms       Float64,
    ADD COLUMN IF NOT EXISTS facts_ms        Float64;
