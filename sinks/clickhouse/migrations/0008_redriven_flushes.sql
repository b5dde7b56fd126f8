-- Flushes that were sent again from the dead letters: how often, and which branches answered that time (none: all of
-- the lane). Such an end is an event of its own.
ALTER TABLE flush_events
    ADD COLUMN IF NOT EXISTS redrive UInt32,
    ADD COLUMN IF NOT EXISTS `only`  Array(LowCardinality(String));

-- What such a flush brought too late is on record as a delta 'overtaken', which has a version and changes nothing:
-- the views of 0003 and 0007 leave it out.
CREATE OR REPLACE VIEW profile_current AS
WITH
    maxIf(version, after IS NULL) AS emptied_at,
    maxIf(version, op NOT IN ('append', 'confirm', 'shorten')) AS replaced_at,
    arrayMap(
        each -> each.2,
        arrayFilter(each -> each.1 > emptied_at AND each.1 >= replaced_at, groupArray((version, said_at)))
    ) AS said
SELECT
    tenant_id,
    user_id,
    topic,
    sub_topic,
    assumeNotNull((argMax(tuple(after), version) AS latest).1) AS value,
    argMax(update_hits, version) AS update_hits,
    argMax(evidence, version) AS evidence,
    argMax(assertion, version) AS assertion,
    arrayMin(said) AS first_said_at,
    arrayMax(said) AS last_said_at,
    argMax(recorded_at, version) AS last_recorded_at,
    max(version) AS last_version
FROM profile_deltas
WHERE kind = 'slot' AND op != 'overtaken'
GROUP BY tenant_id, user_id, topic, sub_topic
HAVING latest.1 IS NOT NULL;

CREATE OR REPLACE VIEW item_changes AS
SELECT
    *,
    countIf(after IS NULL) OVER (
        PARTITION BY tenant_id, user_id, kind, item_id ORDER BY version
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS life
FROM profile_deltas FINAL
WHERE kind IN ('fact', 'preference') AND op != 'overtaken';
