-- Of each slot of each user, whether it holds a value: what questions about all users count, without folding every
-- change.
--
-- Fed from profile_deltas as tag_hits is, see there; rows from before are copied. A maximum does not change with
-- a repeated row, so neither delivery nor copying needs to be exact: take it again, never count rows.
-- Key: a tenant's slot is one range. version: by it a user who is forgotten loses what is of before.
CREATE TABLE IF NOT EXISTS slot_states
(
    tenant_id LowCardinality(String),
    topic     LowCardinality(String),
    sub_topic String,
    user_id   String,
    version   SimpleAggregateFunction(max, UInt64),
    newest    SimpleAggregateFunction(max, UInt64) COMMENT 'twice the newest version; odd when that left a value'
)
ENGINE = AggregatingMergeTree
ORDER BY (tenant_id, topic, sub_topic, user_id);

CREATE MATERIALIZED VIEW IF NOT EXISTS slot_states_feed TO slot_states AS
SELECT
    d.tenant_id AS tenant_id,
    d.topic AS topic,
    d.sub_topic AS sub_topic,
    d.user_id AS user_id,
    max(d.version) AS version,
    max(2 * d.version + (d.after IS NOT NULL)) AS newest
FROM profile_deltas AS d
WHERE d.kind = 'slot' AND d.op != 'overtaken'
GROUP BY tenant_id, topic, sub_topic, user_id;

INSERT INTO slot_states
SELECT
    d.tenant_id AS tenant_id,
    d.topic AS topic,
    d.sub_topic AS sub_topic,
    d.user_id AS user_id,
    max(d.version) AS version,
    max(2 * d.version + (d.after IS NOT NULL)) AS newest
FROM profile_deltas AS d
WHERE d.kind = 'slot' AND d.op != 'overtaken'
GROUP BY tenant_id, topic, sub_topic, user_id;
