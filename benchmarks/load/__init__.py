"""The load generator: traffic that is made up, run through workers, and what was seen of it."""
