"""What of a stranger's request is taken, and where it is read: beside the event loop, in turns."""
