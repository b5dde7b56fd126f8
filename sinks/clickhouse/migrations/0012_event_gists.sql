-- One row for each bullet of a memo: what was talked about, when, under which tags.
--
-- Fed from flush_events as tag_hits is from profile_deltas, see there; rows from before are copied. Several copies of a
-- row count once under FINAL. Key: a user's conversations in the order in which they took place are one range.
-- Granules as of profile_deltas. No TTL, as tag_hits. log_id, partition and last_offset tell what is of before when a user is forgotten.
CREATE TABLE IF NOT EXISTS event_gists
(
    tenant_id   LowCardinality(String),
    user_id     String,
    occurred_at DateTime64(6, 'UTC') COMMENT 'when the newest of its messages was written',
    event_id    String,
    `index`     UInt32 COMMENT 'position among the bullets of the memo',
    flush_id    String,
    text        String CODEC(ZSTD),
    evidence    Array(String) CODEC(ZSTD),
    tags        Array(Tuple(tag String, value String)) COMMENT 'those of the whole event',
    log_id      LowCardinality(String),
    partition   Int32,
    last_offset Int64,
    recorded_at DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY (tenant_id, user_id, occurred_at, event_id, `index`)
SETTINGS index_granularity = 512, index_granularity_bytes = 1048576;

CREATE MATERIALIZED VIEW IF NOT EXISTS event_gists_feed TO event_gists AS
SELECT
    tenant_id,
    user_id,
    -- What cites no message of its flush is of the flush's own time.
    if(empty(times), last_occurred_at, arrayMax(times)) AS occurred_at,
    event_id,
    number - 1 AS `index`,
    flush_id,
    bullet.text AS text,
    bullet.evidence AS evidence,
    tags,
    log_id,
    partition,
    last_offset,
    recorded_at
FROM
(
    SELECT
        *,
        bullet,
        number,
        arrayMap(
            each -> each.occurred_at,
            arrayFilter(each -> has(bullet.evidence, each.message_id), messages)
        ) AS times
    FROM flush_events
    ARRAY JOIN memo AS bullet, arrayEnumerate(memo) AS number
);

INSERT INTO event_gists
SELECT
    tenant_id,
    user_id,
    if(empty(times), last_occurred_at, arrayMax(times)) AS occurred_at,
    event_id,
    number - 1 AS `index`,
    flush_id,
    bullet.text AS text,
    bullet.evidence AS evidence,
    tags,
    log_id,
    partition,
    last_offset,
    recorded_at
FROM
(
    SELECT
        *,
        bullet,
        number,
        arrayMap(
            each -> each.occurred_at,
            arrayFilter(each -> has(bullet.evidence, each.message_id), messages)
        ) AS times
    FROM flush_events
    ARRAY JOIN memo AS bullet, arrayEnumerate(memo) AS number
);
