-- Facts, preferences and tags as folding the deltas gives them; see schemas.folding. A condition on tenant_id and
-- user_id reaches the key of profile_deltas through all of these views.

-- Changes of facts and preferences, and of which life of the item they are part: it ends with a change that leaves no
-- text. FINAL, as a repeated end would be counted twice.
CREATE VIEW IF NOT EXISTS item_changes AS
SELECT
    *,
    countIf(after IS NULL) OVER (
        PARTITION BY tenant_id, user_id, kind, item_id ORDER BY version
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS life
FROM profile_deltas FINAL
WHERE kind IN ('fact', 'preference');

-- source_session is that of the newest change but repeats, else of the first repeat. The tuple is for argMax, which
-- skips nulls.
CREATE VIEW IF NOT EXISTS facts_current AS
SELECT
    tenant_id,
    user_id,
    item_id AS fact_id,
    assumeNotNull(argMax(after, version)) AS text,
    argMax(topic, version) AS category,
    assumeNotNull(argMax(confidence, version)) AS confidence,
    assumeNotNull(argMax(importance, version)) AS importance,
    argMax(tuple(session_id), if(op = 'confirm', -toInt64(version), toInt64(version))).1 AS source_session,
    min(said_at) AS first_seen,
    max(said_at) AS last_confirmed,
    argMax(update_hits, version) AS times_mentioned,
    argMax(evidence, version) AS evidence,
    argMax(recorded_at, version) AS last_recorded_at,
    min(version) AS first_version,
    max(version) AS last_version
FROM item_changes
WHERE kind = 'fact'
GROUP BY tenant_id, user_id, item_id, life
HAVING countIf(after IS NULL) = 0;

-- Facts that newer ones contradict, as they were last: all of them, a profile keeps only the newest.
CREATE VIEW IF NOT EXISTS facts_replaced AS
SELECT
    tenant_id,
    user_id,
    item_id AS fact_id,
    assumeNotNull(argMaxIf(after, version, after IS NOT NULL)) AS text,
    argMaxIf(topic, version, after IS NOT NULL) AS category,
    assumeNotNull(argMaxIf(confidence, version, after IS NOT NULL)) AS confidence,
    assumeNotNull(argMaxIf(importance, version, after IS NOT NULL)) AS importance,
    argMaxIf(
        tuple(session_id), if(op = 'confirm', -toInt64(version), toInt64(version)), after IS NOT NULL
    ).1 AS source_session,
    minIf(said_at, after IS NOT NULL) AS first_seen,
    maxIf(said_at, after IS NOT NULL) AS last_confirmed,
    argMaxIf(update_hits, version, after IS NOT NULL) AS times_mentioned,
    argMaxIf(evidence, version, after IS NOT NULL) AS evidence,
    argMaxIf(recorded_at, version, after IS NOT NULL) AS last_recorded_at,
    max(version) AS last_version,
    ifNull(argMax(replaced_by, version), '') AS replaced_by,
    argMax(reason, version) AS replaced_reason,
    argMax(said_at, version) AS replaced_said_at,
    argMax(recorded_at, version) AS replaced_recorded_at
FROM item_changes
WHERE kind = 'fact'
GROUP BY tenant_id, user_id, item_id, life
HAVING countIf(after IS NULL AND op = 'invalidate') = 1 AND countIf(after IS NOT NULL) > 0;

CREATE VIEW IF NOT EXISTS preferences_current AS
SELECT
    tenant_id,
    user_id,
    item_id AS preference_id,
    assumeNotNull(argMax(after, version)) AS text,
    argMax(topic, version) AS category,
    assumeNotNull(argMax(strength, version)) AS strength,
    argMax(quotes, version) AS quotes,
    min(said_at) AS first_seen,
    max(said_at) AS last_confirmed,
    argMax(update_hits, version) AS times_observed,
    argMax(evidence, version) AS evidence,
    argMax(recorded_at, version) AS last_recorded_at,
    min(version) AS first_version,
    max(version) AS last_version
FROM item_changes
WHERE kind = 'preference'
GROUP BY tenant_id, user_id, item_id, life
HAVING countIf(after IS NULL) = 0;

-- Repeated rows change none of these aggregates.
CREATE VIEW IF NOT EXISTS tags_current AS
SELECT
    tenant_id,
    user_id,
    sub_topic AS tag,
    argMax(update_hits, version) AS hits,
    min(said_at) AS first_seen,
    max(said_at) AS last_seen,
    max(version) AS last_version
FROM profile_deltas
WHERE kind = 'tag'
GROUP BY tenant_id, user_id, sub_topic;
