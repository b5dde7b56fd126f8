"""What is written to ClickHouse and Qdrant, and what can be read back."""
