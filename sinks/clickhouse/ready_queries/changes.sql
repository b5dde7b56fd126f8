-- What changed in the profiles of a tenant between two times, by when it was recorded: the first so many rows.
-- tenant = default: the tenant
-- since = 1970-01-01: from this time on; give one to see later changes
-- until = 2200-01-01: before this time
-- limit = 1000: rows at the most
SELECT recorded_at, user_id, version, kind, op, topic, sub_topic, before, after, reason, evidence, said_at
FROM profile_deltas
WHERE tenant_id = {tenant:String}
    AND recorded_at >= parseDateTime64BestEffort({since:String}, 6, 'UTC')
    AND recorded_at < parseDateTime64BestEffort({until:String}, 6, 'UTC')
    -- As many different moments as rows are wanted have at least so many changes: whatever is later need not be sorted.
    AND recorded_at <=
    (
        SELECT max(moment)
        FROM
        (
            SELECT recorded_at AS moment
            FROM profile_deltas
            WHERE tenant_id = {tenant:String}
                AND recorded_at >= parseDateTime64BestEffort({since:String}, 6, 'UTC')
                AND recorded_at < parseDateTime64BestEffort({until:String}, 6, 'UTC')
            GROUP BY moment
            ORDER BY moment
            LIMIT {limit:UInt64}
        )
    )
ORDER BY recorded_at, user_id, version
LIMIT 1 BY user_id, version, delta_id
LIMIT {limit:UInt64}
