-- What processors gave that could not be used, by day, stage and reason.
-- tenant = default: the tenant
-- since = 1970-01-01: from this time on, by when it was recorded
-- until = 2200-01-01: before this time
SELECT toDate(recorded_at) AS day, item.stage AS stage, item.reason AS reason, count() AS items, any(item.detail) AS example
FROM flush_events FINAL
ARRAY JOIN dropped AS item
WHERE tenant_id = {tenant:String}
    AND recorded_at >= parseDateTime64BestEffort({since:String}, 6, 'UTC')
    AND recorded_at < parseDateTime64BestEffort({until:String}, 6, 'UTC')
GROUP BY day, stage, reason
ORDER BY day, items DESC, stage, reason
