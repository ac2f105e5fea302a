"""Properties of messages: their names and their text."""

from gantrymq.model.java import java_map_order as java_map_order
from gantrymq.model.java import ordered_text as ordered_text
from gantrymq.model.properties import *  # noqa: F403
