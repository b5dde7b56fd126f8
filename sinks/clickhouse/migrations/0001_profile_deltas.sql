-- One row for each delta; the columns are the fields of schemas.deltas.ProfileDelta.
--
-- Delivery is at least once, so a delta may be inserted again, in a block cut differently. Block deduplication
-- (insert_deduplication_token with non_replicated_deduplication_window) would only recognise the same block among
-- the last few; ReplacingMergeTree recognises the same row for ever: read with FINAL, each key counts once.
--
-- Key: all reads name a tenant and a user, and a profile is the fold of that user's deltas in the order of their
-- versions: one contiguous range, already sorted. delta_id makes the key unique should two ever claim a version.
-- Granules of 512 rows: whoever asks about one user wants all columns of a hundred rows, and unpacks a granule of each
-- column of each part for them. 8,192 rows, the default, take half as long again; an archive that has them keeps them.
-- No partitions: FINAL needs both copies of a row in one, and months would scatter each user over all of them.
CREATE TABLE IF NOT EXISTS profile_deltas
(
    tenant_id        LowCardinality(String),
    user_id          String,
    version          UInt64,
    delta_id         String,
    flush_id         String,
    `index`          UInt32,
    kind             LowCardinality(String),
    op               LowCardinality(String),
    topic            LowCardinality(String),
    sub_topic        String,
    before           Nullable(String) CODEC(ZSTD),
    after            Nullable(String) CODEC(ZSTD),
    added            Nullable(String) CODEC(ZSTD),
    reason           String CODEC(ZSTD),
    evidence         Array(String) CODEC(ZSTD),
    assertion        LowCardinality(String),
    update_hits      UInt32,
    said_at          DateTime64(6, 'UTC'),
    recorded_at      DateTime64(6, 'UTC'),
    processor        LowCardinality(String),
    pipeline_version LowCardinality(String)
)
ENGINE = ReplacingMergeTree
ORDER BY (tenant_id, user_id, version, delta_id)
SETTINGS index_granularity = 512, index_granularity_bytes = 1048576;
