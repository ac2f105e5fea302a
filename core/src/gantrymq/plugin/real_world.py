"""The world of the operating system, for commands; a broker's plugin gets its world from the broker."""

from gantrymq.world.real import RealClock as RealClock
from gantrymq.world.real import RealFiles as RealFiles
from gantrymq.world.real import raise_descriptor_limit as raise_descriptor_limit
from gantrymq.world.real import real_world as real_world
from gantrymq.world.real.lock import held_elsewhere as held_elsewhere
