-- Slots whose value was replaced or taken back most often.
-- tenant = default: the tenant
-- limit = 50: rows at the most
SELECT
    topic,
    sub_topic,
    -- A change that is there twice counts once.
    uniqExact(cityHash64(user_id, version)) AS changes,
    uniqExact(cityHash64(user_id)) AS users,
    changes / users AS changes_per_user
FROM profile_deltas
WHERE tenant_id = {tenant:String} AND kind = 'slot' AND op IN ('update', 'delete')
GROUP BY topic, sub_topic
ORDER BY changes DESC, topic, sub_topic
LIMIT {limit:UInt64}
