-- Where each record lies on its topic, so that a row and a record can be told to be the same. A record that was sent
-- again lies in several places: this is one of them. Rows from before these columns: no topic, offset -1.
ALTER TABLE profile_deltas
    ADD COLUMN IF NOT EXISTS kafka_topic     LowCardinality(String),
    ADD COLUMN IF NOT EXISTS kafka_partition Int32 DEFAULT -1,
    ADD COLUMN IF NOT EXISTS kafka_offset    Int64 DEFAULT -1 CODEC(Delta, ZSTD);

ALTER TABLE flush_events
    ADD COLUMN IF NOT EXISTS kafka_topic     LowCardinality(String),
    ADD COLUMN IF NOT EXISTS kafka_partition Int32 DEFAULT -1,
    ADD COLUMN IF NOT EXISTS kafka_offset    Int64 DEFAULT -1 CODEC(Delta, ZSTD);
