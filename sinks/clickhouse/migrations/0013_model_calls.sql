-- One row for each call of a model, fed from flush_events and kept as event_gists is, see there.
--
-- Key: the bill of a tenant over a span of time is one range. No partitions, as tag_hits: months would only help to drop
-- old calls, for which a TTL does as well: ALTER TABLE model_calls MODIFY TTL toDateTime(recorded_at) + INTERVAL 1 YEAR
CREATE TABLE IF NOT EXISTS model_calls
(
    tenant_id         LowCardinality(String),
    recorded_at       DateTime64(6, 'UTC') COMMENT 'when the flush that it was made for ended' CODEC(Delta, ZSTD),
    event_id          String,
    `index`           UInt32 COMMENT 'position among the calls of the flush',
    user_id           String,
    flush_id          String,
    lane              LowCardinality(String),
    stage             LowCardinality(String),
    model             LowCardinality(String),
    outcome           LowCardinality(String),
    prompt_tokens     UInt64,
    completion_tokens UInt64,
    attempts          UInt32,
    duration_ms       Float64,
    prompt_version    LowCardinality(String),
    pipeline_version  LowCardinality(String),
    log_id            LowCardinality(String),
    partition         Int32,
    last_offset       Int64
)
ENGINE = ReplacingMergeTree
ORDER BY (tenant_id, recorded_at, event_id, `index`);

CREATE MATERIALIZED VIEW IF NOT EXISTS model_calls_feed TO model_calls AS
SELECT
    tenant_id,
    recorded_at,
    event_id,
    number - 1 AS `index`,
    user_id,
    flush_id,
    lane,
    made.stage AS stage,
    made.model AS model,
    made.outcome AS outcome,
    made.prompt_tokens AS prompt_tokens,
    made.completion_tokens AS completion_tokens,
    made.attempts AS attempts,
    made.duration_ms AS duration_ms,
    made.prompt_version AS prompt_version,
    pipeline_version,
    log_id,
    partition,
    last_offset
FROM flush_events
ARRAY JOIN calls AS made, arrayEnumerate(calls) AS number;

INSERT INTO model_calls
SELECT
    tenant_id,
    recorded_at,
    event_id,
    number - 1 AS `index`,
    user_id,
    flush_id,
    lane,
    made.stage AS stage,
    made.model AS model,
    made.outcome AS outcome,
    made.prompt_tokens AS prompt_tokens,
    made.completion_tokens AS completion_tokens,
    made.attempts AS attempts,
    made.duration_ms AS duration_ms,
    made.prompt_version AS prompt_version,
    pipeline_version,
    log_id,
    partition,
    last_offset
FROM flush_events
ARRAY JOIN calls AS made, arrayEnumerate(calls) AS number;
