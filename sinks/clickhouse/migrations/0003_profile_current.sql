-- One row for each slot that holds a value now; the same slots that folding the deltas gives.
--
-- Repeated rows change none of these aggregates, so FINAL is not needed, and a condition on tenant_id and user_id
-- reaches the table's key through the GROUP BY. argMax skips nulls, hence the tuple around a value that may be
-- null. A value that replaces another starts anew, and so does a slot that was emptied and filled again: what was said
-- before does not count.
CREATE VIEW IF NOT EXISTS profile_current AS
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
WHERE kind = 'slot'
GROUP BY tenant_id, user_id, topic, sub_topic
HAVING latest.1 IS NOT NULL;
