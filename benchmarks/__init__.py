"""What a user runs before trusting the program with their traffic."""
