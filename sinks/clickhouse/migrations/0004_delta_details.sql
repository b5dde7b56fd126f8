-- What a delta of a fact or a preference says beyond its text: the fields of schemas.deltas.FactDetail and
-- PreferenceDetail, flat, so that a query needs no parsing and reads only what it names. Null, or empty: not of this
-- kind of delta. confidence is set for all that have a FactDetail, strength for all that have a PreferenceDetail.
--
-- Ids and sessions are nearly as many as the rows: no LowCardinality.
ALTER TABLE profile_deltas
    ADD COLUMN IF NOT EXISTS item_id         String CODEC(ZSTD),
    ADD COLUMN IF NOT EXISTS confidence      Nullable(Float64) CODEC(ZSTD),
    ADD COLUMN IF NOT EXISTS importance      Nullable(Float64) CODEC(ZSTD),
    ADD COLUMN IF NOT EXISTS session_id      Nullable(String) CODEC(ZSTD),
    ADD COLUMN IF NOT EXISTS replaced_by     Nullable(String) CODEC(ZSTD),
    ADD COLUMN IF NOT EXISTS strength        Nullable(Float64) CODEC(ZSTD),
    ADD COLUMN IF NOT EXISTS strength_before Nullable(Float64) CODEC(ZSTD),
    ADD COLUMN IF NOT EXISTS quotes          Array(String) CODEC(ZSTD);
