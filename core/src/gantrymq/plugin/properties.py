"""Properties of messages: their names and their text."""

from gantrymq.model.properties import *  # noqa: F403
from gantrymq.model.property_order import java_map_order as java_map_order
from gantrymq.model.property_order import ordered_text as ordered_text
