"""What a person sees while a run works."""
