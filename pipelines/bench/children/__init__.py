"""What runs in a process of its own: one contender on one work. Each reads a JSON file and prints one JSON line."""
