-- One row for each time that a tag fitted a conversation. What came of a tag on each day, of all its users:
--     SELECT toDate(hit_at) AS day, count() AS hits, uniq(user_id) AS users FROM tag_hits FINAL
--     WHERE tenant_id = 'acme' AND tag = 'coffee' GROUP BY day ORDER BY day
-- Tags by hits that count half as much with every 30 days of age:
--     SELECT tag, sum(exp2(-dateDiff('second', hit_at, now()) / 86400 / 30)) AS weight FROM tag_hits FINAL
--     WHERE tenant_id = 'acme' GROUP BY tag ORDER BY weight DESC
--
-- Fed from profile_deltas: an insert there that cannot feed this table as well fails, and is repeated. A repeat, whole
-- or cut differently, brings the same rows again; delta_id in the key makes each count once under FINAL.
--
-- Key: a tenant's tag and a span of time are one contiguous range. A user's own hits are one in profile_deltas.
-- No partitions: hit_at is when people wrote, and an archive of many years in one insert would be refused for having
-- more partitions than max_partitions_per_insert_block.
-- No TTL: trends are wanted over any span. Who needs one: ALTER TABLE tag_hits MODIFY TTL toDateTime(hit_at) + ...
CREATE TABLE IF NOT EXISTS tag_hits
(
    tenant_id   LowCardinality(String),
    tag         LowCardinality(String),
    hit_at      DateTime64(6, 'UTC') COMMENT 'when the newest of the messages was written',
    delta_id    String,
    user_id     String,
    flush_id    String,
    `index`     UInt32 COMMENT 'position among the deltas of the flush; tags of a flush follow their order',
    count       UInt32 COMMENT 'hits of this tag and user so far, this one included',
    evidence    Array(String) CODEC(ZSTD),
    recorded_at DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY (tenant_id, tag, hit_at, delta_id);

CREATE MATERIALIZED VIEW IF NOT EXISTS tag_hits_feed TO tag_hits AS
SELECT
    tenant_id,
    sub_topic AS tag,
    said_at AS hit_at,
    delta_id,
    user_id,
    flush_id,
    `index`,
    update_hits AS count,
    evidence,
    recorded_at
FROM profile_deltas
WHERE kind = 'tag';
