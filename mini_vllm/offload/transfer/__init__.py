"""KV from another engine, loaded straight into blocks of the device: a request holds its blocks
while they are filled, and may have to leave them to a reader when it has ended.
"""
