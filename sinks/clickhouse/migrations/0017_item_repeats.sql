-- The views of 0007 and 0008 on facts and preferences, without FINAL: for one user it cost more than the fold itself.
-- Repeated rows change nothing: those of one version are of the same life, and no aggregate counts them.

-- First, as it reads either form of item_changes.
CREATE OR REPLACE VIEW facts_replaced AS
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
HAVING countIf(after IS NULL AND op = 'invalidate') > 0 AND countIf(after IS NOT NULL) > 0;

-- A repeated change is there as often as its row is.
CREATE OR REPLACE VIEW item_changes AS
SELECT
    *,
    uniqExactIf(version, after IS NULL) OVER (
        PARTITION BY tenant_id, user_id, kind, item_id ORDER BY version
        RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS life
FROM profile_deltas
WHERE kind IN ('fact', 'preference') AND op != 'overtaken';
