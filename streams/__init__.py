"""The stream topology and its machinery: application, topics, windows, keyed lanes, settings, commands."""
