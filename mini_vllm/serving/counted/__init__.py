"""What the engine counts by itself over all steps, on its way to GET /metrics."""
