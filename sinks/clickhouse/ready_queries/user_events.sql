-- What a user talked about, newest first: by time, by tag, by words.
-- tenant = default: the user's tenant
-- user: the user
-- since = 1970-01-01: from this time on, by when it was said
-- until = 2200-01-01: before this time
-- tag = *: only events with this tag, or tag=value; * means any
-- text = *: only those that have these words in them, in any case; * means any
-- limit = 100: rows at the most
SELECT
    occurred_at,
    text,
    arrayMap(each -> concat(each.tag, '=', each.value), tags) AS tags,
    evidence,
    event_id,
    recorded_at
FROM event_gists FINAL
PREWHERE tenant_id = {tenant:String} AND user_id = {user:String}
WHERE occurred_at >= parseDateTime64BestEffort({since:String}, 6, 'UTC')
    AND occurred_at < parseDateTime64BestEffort({until:String}, 6, 'UTC')
    AND ({tag:String} = '*'
        OR arrayExists(
            each -> each.1 = {tag:String} OR concat(each.1, '=', each.2) = {tag:String},
            event_gists.tags))
    AND ({text:String} = '*' OR positionCaseInsensitiveUTF8(text, {text:String}) > 0)
ORDER BY occurred_at DESC, event_id, `index`
LIMIT {limit:UInt64}
