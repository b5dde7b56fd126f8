-- One row for each flush; the columns are the fields of schemas.deltas.FlushEvent, with those of its heading
-- (schemas.flushes.FlushRef) beside them.
--
-- Lists of records are arrays of named tuples: one column each, whose parts stay columns of their own
-- (`calls.prompt_tokens`), and ARRAY JOIN makes rows of them:
--     SELECT c.model, sum(c.prompt_tokens) FROM flush_events FINAL ARRAY JOIN calls AS c GROUP BY 1
--
-- Key and granules: as profile_deltas, see there; event_id follows from the flush, so that a flush has one row under FINAL. The
-- version column recorded_at lets the later end win when a failed flush is sent through again.
CREATE TABLE IF NOT EXISTS flush_events
(
    tenant_id         LowCardinality(String),
    user_id           String,
    event_id          String,
    flush_id          String,
    lane              LowCardinality(String),
    log_id            LowCardinality(String),
    partition         Int32,
    first_offset      Int64,
    last_offset       Int64,
    trigger           LowCardinality(String),
    opened_at         DateTime64(6, 'UTC'),
    closed_at         DateTime64(6, 'UTC'),
    first_occurred_at DateTime64(6, 'UTC'),
    last_occurred_at  DateTime64(6, 'UTC'),
    message_count     UInt32,
    token_count       UInt64,
    outcome           LowCardinality(String),
    memo              Array(Tuple(text String, evidence Array(String))) CODEC(ZSTD),
    tags              Array(Tuple(tag String, value String)),
    messages          Array(Tuple(message_id String, role LowCardinality(String), occurred_at DateTime64(6, 'UTC'))),
    added             Array(Tuple(topic LowCardinality(String), sub_topic LowCardinality(String), value String)),
    delta_ids         Array(String),
    first_version     Nullable(UInt64),
    last_version      Nullable(UInt64),
    calls             Array(Tuple(
                          stage LowCardinality(String),
                          model LowCardinality(String),
                          outcome LowCardinality(String),
                          prompt_tokens UInt64,
                          completion_tokens UInt64,
                          attempts UInt32,
                          duration_ms Float64,
                          prompt_version LowCardinality(String))),
    dropped           Array(Tuple(stage LowCardinality(String), reason LowCardinality(String), detail String)),
    errors            Map(String, String),
    timings           Tuple(window Float64, summary Float64, extract Float64, tag Float64, merge Float64),
    recorded_at       DateTime64(6, 'UTC'),
    processor         LowCardinality(String),
    pipeline_version  LowCardinality(String)
)
ENGINE = ReplacingMergeTree(recorded_at)
ORDER BY (tenant_id, user_id, event_id)
SETTINGS index_granularity = 512, index_granularity_bytes = 1048576;
