"""Ready experiments: arms to run, and the report of what came out."""
