STORY = (
    "A learner packs the key into an array of 32-bit floats. Seconds since 1970 have no room for what is "
    "behind the point."
)
CONCEPT = "Times are compared as they are: the smallest difference decides, between large numbers too."
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        (
            'rounded = struct.unpack("f", struct.pack("f", request.arrival_time))[0]\n'
            "    return (request.priority, rounded, request.request_id)"
        ),
    ),
    (
        ("from bisect import insort\n"),
        ("import struct\nfrom bisect import insort\n"),
    ),
]
