# === one_list
"""All leases stand in one list, the newest of a request behind the older ones."""

from mini_vllm.offload.remote.leases import Lease


class Leases:
    def __init__(self, clock, duration=30.0, extension=20.0, first_generation=1):
        self.clock, self.duration, self.extension = clock, duration, extension
        self.next_generation, self.all, self.latest = first_generation, [], {}

    def __len__(self):
        return len(self.all)

    def grant(self, request_id, names):
        lease = Lease(request_id, self.next_generation, names, self.clock() + self.duration)
        self.next_generation += 1
        self.all.append(lease)
        self.latest[request_id] = lease.generation
        return lease

    def newest(self, request_id):
        for lease in self.all:
            if lease.request_id == request_id and lease.generation == self.latest[request_id]:
                return lease
        return None

    def is_over(self, lease):
        return lease.end <= self.clock() or self.newest(lease.request_id) is not lease

    def find(self, request_id):
        lease = self.newest(request_id)
        return None if lease is None or self.is_over(lease) else lease

    def holds(self, lease):
        if not any(each is lease for each in self.all):
            return False
        return lease.num_pins > 0 or not self.is_over(lease)

    def extend(self, request_id):
        lease = self.find(request_id)
        if lease is None:
            return False
        lease.end = max(lease.end, self.clock() + self.extension)
        return True

    def pin(self, request_id):
        lease = self.find(request_id)
        if lease is not None:
            lease.num_pins += 1
        return lease

    def unpin(self, lease):
        if not lease.num_pins:
            raise AssertionError("no pin is left")
        lease.num_pins -= 1

    def release(self, request_id):
        lease = self.find(request_id)
        if lease is None:
            return False
        lease.end = self.clock()
        return True

    def collect(self):
        found = [lease for lease in self.all if not lease.num_pins and self.is_over(lease)]
        self.all = [lease for lease in self.all if lease not in found]
        return found

    def clear(self):
        found, self.all = self.all, []
        return found


# === by_generation
"""Leases are found by their generation, and a request by that of its newest one."""

from mini_vllm.offload.remote.leases import Lease


class Leases:
    def __init__(self, clock, duration=30.0, extension=20.0, first_generation=1):
        self.clock, self.duration, self.extension = clock, duration, extension
        self.generation = first_generation - 1
        self.known, self.newest = {}, {}

    def __len__(self):
        return len(self.known)

    def grant(self, request_id, names):
        self.generation += 1
        self.newest[request_id] = self.generation
        self.known[self.generation] = Lease(request_id, self.generation, names, self.clock() + self.duration)
        return self.known[self.generation]

    def in_force(self, lease):
        return self.newest.get(lease.request_id) == lease.generation and self.clock() < lease.end

    def find(self, request_id):
        lease = self.known.get(self.newest.get(request_id))
        return lease if lease is not None and self.in_force(lease) else None

    def holds(self, lease):
        return self.known.get(lease.generation) is lease and bool(lease.num_pins or self.in_force(lease))

    def extend(self, request_id):
        lease = self.find(request_id)
        if lease:
            lease.end = max(lease.end, self.clock() + self.extension)
        return bool(lease)

    def pin(self, request_id):
        lease = self.find(request_id)
        if lease:
            lease.num_pins += 1
        return lease

    def unpin(self, lease):
        assert lease.num_pins, "unpinned too often"
        lease.num_pins -= 1

    def release(self, request_id):
        lease = self.find(request_id)
        if lease:
            lease.end = self.clock()
        return bool(lease)

    def collect(self):
        found = [lease for lease in self.known.values() if not lease.num_pins and not self.in_force(lease)]
        for lease in found:
            del self.known[lease.generation]
        return found

    def clear(self):
        found = list(self.known.values())
        self.known.clear()
        self.newest.clear()
        return found
