-- How often each tag of the catalogue fitted a conversation, day by day, and of how many users.
-- tenant = default: the tenant
-- since = 1970-01-01: from this time on, by when it was said
-- until = 2200-01-01: before this time
SELECT toDate(hit_at) AS day, tag, count() AS hits, uniqExact(user_id) AS users
FROM tag_hits FINAL
WHERE tenant_id = {tenant:String}
    AND hit_at >= parseDateTime64BestEffort({since:String}, 6, 'UTC')
    AND hit_at < parseDateTime64BestEffort({until:String}, 6, 'UTC')
GROUP BY day, tag
ORDER BY day, hits DESC, tag
