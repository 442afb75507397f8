"""What users felt, derived from the records of a run."""
