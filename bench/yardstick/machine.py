"""The machine: what it can do at most, and whether it is fit to be measured on."""

import dataclasses
import json
import os
import pathlib
import subprocess
import time


@dataclasses.dataclass
class Limits:
    """Of one number of threads, as `bench/limits` of the build measures them."""

    threads: int
    fma_gflops: float
    fma_median_gflops: float
    triad_gbs: float
    read_gbs: float

    def of(self, name):
        return {"fma": self.fma_gflops, "triad": self.triad_gbs, "read": self.read_gbs}.get(name)


def measure_limits(program, threads, environment=None):
    """Limits of that many threads, or None where the program has not been built."""
    if not pathlib.Path(program).is_file():
        return None
    text = subprocess.run([str(program), str(threads)], capture_output=True, text=True, check=True, env=environment).stdout
    return parse_limits(text)


def parse_limits(text):
    return Limits(**json.loads(text.splitlines()[-1]))


def busy_share(before, after):
    """The share of all processors' time that was used or stolen between two readings of /proc/stat."""
    def fields(text):
        return [int(v) for v in text.splitlines()[0].split()[1:9]]

    spent = [b - a for a, b in zip(fields(before), fields(after))]
    idle = spent[3] + spent[4]  # idle, iowait
    return 1 - idle / sum(spent) if sum(spent) > 0 else 0.0


def read_stat():
    try:
        return pathlib.Path("/proc/stat").read_text(encoding="ascii")
    except OSError:
        return None


def complaints(busy, limits, slowed):
    """Why the machine is not fit, one sentence each. `busy`: share of the processors in others' use, or None; `slowed`:
    how often the processors were slowed for heat since the machine started, or None."""
    found = []
    if busy is not None and busy > 0.1:
        found.append(f"other programs use {100 * busy:.0f} % of the processors; wait until they are done")
    if limits and limits.fma_median_gflops < 0.9 * limits.fma_gflops:
        share = 100 * limits.fma_median_gflops / limits.fma_gflops
        found.append(f"half of the time it computes at {share:.0f} % of its best or less: it is throttled, or shared")
    if slowed:
        found.append(f"it was slowed {slowed} times for heat since it started; let it cool, and restart the count")
    return found


def thermal_slowdowns():
    """How often a core was slowed for heat, where the system counts it."""
    counters = pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
    counts = [int(file.read_text(encoding="ascii")) for file in counters]
    return sum(counts) if counts else None


def look(limits, seconds=1.0):
    """The complaints about this machine now."""
    before = read_stat()
    time.sleep(seconds)
    after = read_stat()
    busy = busy_share(before, after) if before and after else None
    return complaints(busy, limits, thermal_slowdowns())


def may_measure(found, warn, environment=os.environ):
    """Whether to go on in spite of what was found."""
    return not found or warn or environment.get("RLX_ALLOW_THROTTLE") == "1"


def processor_name():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    import platform

    return platform.processor() or platform.machine()
