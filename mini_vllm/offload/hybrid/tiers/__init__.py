"""A prefix cache of several groups of layers that goes on behind the device."""
