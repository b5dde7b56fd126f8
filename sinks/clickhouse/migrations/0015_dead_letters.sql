-- Records that could not be processed: where each lies and why it failed, without the record itself.
-- partition and `offset` are those of the record, kafka_... those of the letter. A letter that says of no user whose it
-- is has empty ones.
CREATE TABLE IF NOT EXISTS dead_letters
(
    tenant_id       LowCardinality(String),
    user_id         String,
    letter_id       String,
    stage           LowCardinality(String),
    reason          LowCardinality(String),
    detail          String CODEC(ZSTD),
    topic           LowCardinality(String),
    partition       Int32,
    `offset`        Int64,
    attempts        UInt32,
    failed_at       DateTime64(6, 'UTC'),
    kafka_topic     LowCardinality(String),
    kafka_partition Int32,
    kafka_offset    Int64
)
ENGINE = ReplacingMergeTree
ORDER BY (tenant_id, user_id, letter_id);

-- What was decided about letters: sent again, discarded, forgotten.
CREATE TABLE IF NOT EXISTS dead_letter_decisions
(
    letter_id       String,
    decided_at      DateTime64(6, 'UTC'),
    decision        LowCardinality(String),
    reason          String,
    kafka_topic     LowCardinality(String),
    kafka_partition Int32,
    kafka_offset    Int64
)
ENGINE = ReplacingMergeTree
ORDER BY (letter_id, decided_at, decision);

-- Letters with their state. 'redriving' is about to be sent again, and open until that is done.
CREATE VIEW IF NOT EXISTS dead_letters_current AS
SELECT
    l.*,
    if(d.decision IN ('', 'redriving'), 'open', d.decision) AS state,
    d.reason AS decision_reason,
    d.decided_at AS decided_at
FROM (SELECT * FROM dead_letters FINAL) AS l
LEFT JOIN
(
    SELECT
        letter_id,
        argMin(decision, rank) AS decision,
        argMin(reason, rank) AS reason,
        argMin(decided_at, rank) AS decided_at
    FROM
    (
        -- The first decision that was carried out stands, and that the user is forgotten above all.
        SELECT *, (multiIf(decision = 'forgotten', 0, decision = 'redriving', 2, 1), decided_at) AS rank
        FROM dead_letter_decisions
    )
    GROUP BY letter_id
) AS d ON d.letter_id = l.letter_id;
