-- The stages whose dead letters a flush that was sent again came from, one after the other: what tells two letters of
-- one flush apart that ask the same branch.
ALTER TABLE flush_events
    ADD COLUMN IF NOT EXISTS letters_of Array(LowCardinality(String));
