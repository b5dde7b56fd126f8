-- The version of a hit's delta, by which a user who is forgotten loses those from before and keeps those from after.
-- Rows from before this column have 0: they are older than whatever is forgotten from now on.
ALTER TABLE tag_hits
    ADD COLUMN IF NOT EXISTS version UInt64;

ALTER TABLE tag_hits_feed MODIFY QUERY
SELECT
    tenant_id,
    sub_topic AS tag,
    said_at AS hit_at,
    delta_id,
    user_id,
    flush_id,
    `index`,
    update_hits AS count,
    evidence,
    recorded_at,
    version
FROM profile_deltas
WHERE kind = 'tag';
