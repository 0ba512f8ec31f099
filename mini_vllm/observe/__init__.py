"""What a run did, seen from outside: traces, figures of a step, drawings."""
