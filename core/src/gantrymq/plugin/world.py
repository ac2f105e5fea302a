"""Clock, files, network and worker threads: plugins use the operating system through these only."""

from gantrymq.world import Clock as Clock
from gantrymq.world import DiskUsage as DiskUsage
from gantrymq.world import File as File
from gantrymq.world import FileLocks as FileLocks
from gantrymq.world import FileReader as FileReader
from gantrymq.world import Files as Files
from gantrymq.world import FileTree as FileTree
from gantrymq.world import Listener as Listener
from gantrymq.world import Lock as Lock
from gantrymq.world import Timer as Timer
from gantrymq.world import Volume as Volume
from gantrymq.world import Workers as Workers
from gantrymq.world import World as World
from gantrymq.world import is_disk_full as is_disk_full
from gantrymq.world.clock import MAX_SLICE_S as MAX_SLICE_S
from gantrymq.world.clock import TimeSlices as TimeSlices
from gantrymq.world.clock import monotonic_ms as monotonic_ms
from gantrymq.world.clock import wait_set as wait_set
from gantrymq.world.files import FileStat as FileStat
from gantrymq.world.files import make_durable_dirs as make_durable_dirs
from gantrymq.world.workers import Done as Done
from gantrymq.world.workers import outcome_into as outcome_into
from gantrymq.world.workers import resolve_future as resolve_future
